// Before anything is painted: the colours that the reader has chosen.
"use strict";
try {
  const theme = localStorage.getItem("sessiontree-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* storage may be off */ }
document.documentElement.classList.add("scripted");
