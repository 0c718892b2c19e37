// What all pages of the viewer have: asking and changing, colours, copying.
"use strict";
(() => {
  const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? "";

  // Send a form's fields; what the server says, or an error with a line for the reader.
  async function post(path, fields = {}) {
    const body = new URLSearchParams({ ...fields, token: meta("form-token") });
    const answer = await fetch(`${meta("root")}/${path}`, { method: "POST", body }).catch(() => null);
    if (!answer) throw new Error("The server doesn't answer. Is sessiontree view still running?");
    if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
    return answer.json();
  }

  // The clipboard needs a secure page; where it is none, the reader gets the text to copy.
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      prompt("Copy this:", text);
      return false;
    }
  }

  // One line in the corner, for a moment; with a button, until it is used or closed.
  function tell(text, label, act) {
    document.getElementById("toast")?.remove();
    const toast = document.createElement("div");
    toast.id = "toast";
    toast.setAttribute("role", "status");
    toast.append(text);
    if (label) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.addEventListener("click", () => { toast.remove(); act(); });
      toast.append(button);
    }
    document.body.append(toast);
    setTimeout(() => toast.remove(), label ? 15_000 : 4_000);
  }

  // A page of a session has its own button for the colours (talk.js).
  if (!document.getElementById("talk")) {
    document.getElementById("theme")?.addEventListener("click", () => {
      const root = document.documentElement;
      const dark = matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = (root.dataset.theme ? root.dataset.theme === "dark" : dark) ? "light" : "dark";
      try { localStorage.setItem("sessiontree-theme", root.dataset.theme); } catch { /* storage may be off */ }
    });
  }

  // Times of articles that stand side by side, as on the page of a session (talk.js).
  for (const time of document.querySelectorAll(".sides time")) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.valueOf())) continue;
    time.title = time.textContent;
    time.textContent = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  }

  addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });

  window.sessiontreeView = { post, copy, tell, root: meta("root") };
})();
