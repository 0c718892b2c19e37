// Plots of usage: a day leads to its sessions.
"use strict";
(() => {
  const { root } = window.sessiontreeView;
  addEventListener("click", (event) => {
    const day = event.target.closest("[data-day]")?.dataset.day;
    if (day) location.assign(`${root}/?q=${encodeURIComponent(`date:${day}`)}`);
  });
  // The newest days are at the right end.
  for (const plot of document.querySelectorAll(".plot")) plot.scrollLeft = plot.scrollWidth;
})();
