// The picture of a tree: zoom by buttons, keys and wheel; arrows go from message to message.
"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const picture = find("picture"), frame = find("frame"), told = find("zoomed");
  const [width, height] = [picture.viewBox.baseVal.width, picture.viewBox.baseVal.height];
  const LEAST = 0.1, MOST = 3;
  let zoom = 1;

  // The point under the mouse, or in the middle, stays where it is.
  function setZoom(wanted, x = frame.clientWidth / 2, y = frame.clientHeight / 2) {
    const next = Math.min(MOST, Math.max(LEAST, wanted));
    const left = (frame.scrollLeft + x) / zoom, top = (frame.scrollTop + y) / zoom;
    zoom = next;
    picture.setAttribute("width", width * zoom);
    picture.setAttribute("height", height * zoom);
    frame.scrollTo(left * zoom - x, top * zoom - y);
    told.textContent = `${Math.round(zoom * 100)}%`;
  }

  const fit = () => setZoom(Math.min(1, (frame.clientWidth - 4) / width, (frame.clientHeight - 4) / height));
  const act = { in: () => setZoom(zoom * 1.25), out: () => setZoom(zoom / 1.25), fit };

  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => act[button.dataset.zoom]());
  }
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = frame.getBoundingClientRect();
    setZoom(zoom * Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });

  const links = [...picture.querySelectorAll("a")];
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const way = { "+": act.in, "=": act.in, "-": act.out, "0": () => setZoom(1), "f": fit }[event.key];
    if (way) { event.preventDefault(); way(); return; }
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -1e9, End: 1e9 }[event.key];
    if (!step || !frame.contains(document.activeElement)) return;
    event.preventDefault();
    const at = links.indexOf(document.activeElement);
    const target = links[Math.min(links.length - 1, Math.max(0, at < 0 ? 0 : at + step))];
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: "nearest" });
  });

  // Begin where the session is.
  const here = picture.querySelector(".leaf");
  if (here) frame.scrollTop = here.cy.baseVal.value - frame.clientHeight + 80;
})();
