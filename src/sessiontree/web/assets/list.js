// The list of sessions: search as you type, filters at once, more rows as you scroll, keys.
"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const form = find("filters"), field = find("query"), list = find("sessions");
  const { root, post, tell } = window.sessiontreeView;
  const trusted = window.trustedTypes
    ? trustedTypes.createPolicy("sessiontree", { createHTML: (markup) => markup })
    : { createHTML: (markup) => markup };
  const PAUSE_MS = 60;

  // Rows are markup that Sessiontree made and escaped.
  function parse(markup) {
    const template = document.createElement("template");
    template.innerHTML = trusted.createHTML(markup);
    return template.content;
  }

  function address() {
    const chosen = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value) chosen.set(name, value);
    return chosen;
  }

  let running = null, last = "";

  async function load(chosen) {
    running?.abort();
    running = new AbortController();
    const answer = await fetch(`${root}/rows?${chosen}`, { signal: running.signal });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    return answer.json();
  }

  // What a query that finds nothing may have meant takes longer: asked for once nobody types.
  const IDLE_MS = 500, INDEXING_MS = 1_500;
  let later = 0;

  async function show(isIdle = false) {
    const chosen = address();
    clearTimeout(later);
    try {
      const asked = new URLSearchParams(chosen);
      if (isIdle) asked.set("idle", "1");
      const found = await load(asked);
      history.replaceState(null, "", `${root}/${String(chosen) ? `?${chosen}` : ""}`);
      if (found.rows !== last) list.replaceChildren(parse(found.rows));
      last = found.rows;
      find("told").replaceChildren(parse(found.told));
      find("nothing").hidden = list.childElementCount > 0;
      find("reset").hidden = !found.isNarrow;
      watchForMore();
      if (found.isIndexing) later = setTimeout(show, INDEXING_MS);
      else if (!list.childElementCount && found.isNarrow && !isIdle) later = setTimeout(show, IDLE_MS, true);
    } catch (error) {
      if (error.name !== "AbortError") find("told").textContent = error.message === "Failed to fetch"
        ? "The server doesn't answer. Is sessiontree view still running?" : error.message;
    }
    form.elements.sort.disabled = field.value.trim() !== ""; // what is searched comes best first
    for (const choice of form.querySelectorAll("select, [name=model]")) {
      choice.parentElement.classList.toggle("set", choice.value !== "");
    }
  }

  let pause = 0;
  field.addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(show, PAUSE_MS); });
  const model = form.elements.model;
  model.addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(show, 4 * PAUSE_MS); });
  form.addEventListener("change", (event) => { if (event.target !== field && event.target !== model) show(); });
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(pause); show(); });
  find("reset").addEventListener("click", (event) => {
    event.preventDefault();
    for (const choice of form.elements) {
      if (choice.type === "checkbox") choice.checked = false; else choice.value = "";
    }
    field.focus();
    show();
  });

  // -- more rows ----------------------------------------------------------------------------

  const observer = new IntersectionObserver((changes) => {
    if (changes.some((change) => change.isIntersecting)) addMore();
  }, { rootMargin: "800px 0px" });

  function watchForMore() {
    observer.disconnect();
    const more = list.querySelector(".more");
    if (more) observer.observe(more);
  }

  async function addMore() {
    const more = list.querySelector(".more");
    if (!more || more.classList.contains("asked")) return;
    more.classList.add("asked");
    try {
      const found = await load(new URL(more.firstChild.href).searchParams);
      if (more.isConnected) more.replaceWith(parse(found.rows));
      watchForMore();
    } catch { more.classList.remove("asked"); }
  }

  list.addEventListener("click", (event) => {
    if (event.target.closest(".more")) { event.preventDefault(); addMore(); return; }
    // All of a row opens the session, but text in it can be selected.
    const row = event.target.closest(".session");
    if (!row || event.target.closest("a") || String(getSelection())) return;
    const link = row.querySelector("a.name");
    if (event.ctrlKey || event.metaKey) open(link.href, "_blank", "noopener"); else link.click();
  });

  // -- keys ---------------------------------------------------------------------------------

  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !isTyping) { event.preventDefault(); field.focus(); field.select(); return; }
    if (event.key === "Escape" && event.target === field && field.value) { field.value = ""; show(); return; }
    const step = { ArrowDown: 1, ArrowUp: -1, j: isTyping ? 0 : 1, k: isTyping ? 0 : -1 }[event.key];
    if (!step || (isTyping && event.target !== field)) return;
    const links = [...list.querySelectorAll("a.name")];
    const at = links.indexOf(document.activeElement);
    const target = event.target === field ? (step > 0 ? links[0] : null) : at < 0 ? links[0] : links[at + step];
    if (!target && at === 0 && step < 0) { event.preventDefault(); field.focus(); return; }
    if (!target) return;
    event.preventDefault();
    target.focus();
    target.scrollIntoView({ block: "nearest" });
  });

  // -- coming back --------------------------------------------------------------------------

  // The list stays up to date while nobody is in the middle of it.
  const LOOK_MS = 4_000;
  const isIdle = () => !document.hidden && scrollY < 200 && !list.contains(document.activeElement) && !String(getSelection());
  const lookAgain = () => { if (isIdle()) show(list.childElementCount === 0); };
  setInterval(lookAgain, LOOK_MS);
  document.addEventListener("visibilitychange", lookAgain);
  addEventListener("pageshow", (event) => { if (event.persisted) show(); });

  let trashed = null;
  try {
    trashed = JSON.parse(sessionStorage.getItem("sessiontree-trashed"));
    sessionStorage.removeItem("sessiontree-trashed");
  } catch { /* storage may be off */ }
  if (trashed) {
    tell(`Moved to the trash: ${trashed.title}`, "Undo", () => {
      post(`trash/${trashed.key}/restore`).then(() => { tell("Restored"); show(); }, (error) => tell(error.message));
    });
  }
  watchForMore();
})();
