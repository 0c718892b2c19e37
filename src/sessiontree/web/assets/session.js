// A session's page in the viewer: it grows, and its session can be renamed, labelled and removed.
"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const { post, copy, tell, root } = window.sessiontreeView;
  const page = window.sessiontreePage;
  const facts = JSON.parse(find("outline").textContent);
  const own = facts.source.slice(root.length + 1); // "s/KEY"
  const ASK_MS = 1_000, REST_MS = 10_000;

  // -- growing ------------------------------------------------------------------------------

  let mark = facts.mark, isAsking = false, failures = 0;

  async function ask() {
    if (isAsking) return;
    isAsking = true;
    try {
      const answer = await fetch(`${facts.source}/news?count=${page.rows.length}&mark=${mark}`);
      if (answer.status === 200) await take(await answer.json());
      else if (answer.status === 404) page.say("This session is gone: removed, or moved to the trash.");
      else if (answer.status === 401) page.say("The viewer was started again. Open the address that it printed.");
      if (answer.ok && failures) page.quiet();
      failures = answer.ok ? 0 : failures + 1;
    } catch {
      failures += 1;
      if (failures === 3) page.say("The server doesn't answer. Is sessiontree view still running?");
    } finally {
      isAsking = false;
    }
  }

  async function take(news) {
    if (news.isOther) { location.reload(); return; }
    mark = news.mark;
    document.title = `${news.title} · Sessiontree`;
    document.querySelector("#bar h1").textContent = news.title;
    const isBelow = await page.grow(news);
    if (isBelow) offerEnd();
  }

  function offerEnd() {
    if (find("newer")) return;
    const button = document.createElement("button");
    button.id = "newer";
    button.type = "button";
    button.textContent = "New messages ↓";
    button.addEventListener("click", () => { button.remove(); page.toEnd(); });
    document.body.append(button);
  }

  addEventListener("scroll", () => { if (find("newer") && page.isAtEnd()) find("newer").remove(); }, { passive: true });

  (function again() {
    const isAway = document.hidden || failures > 5;
    setTimeout(async () => { if (!document.hidden) await ask(); again(); }, isAway ? REST_MS : ASK_MS);
  })();
  document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });

  // -- what can be done ---------------------------------------------------------------------

  const command = find("copy");
  command?.addEventListener("click", async () => {
    if (await copy(command.dataset.command)) tell(`Copied: ${command.dataset.command}`);
  });

  for (const button of document.querySelectorAll("[data-dialog]")) {
    button.addEventListener("click", () => {
      find("more").open = false;
      openDialog(button.dataset.dialog);
    });
  }

  function openDialog(name) {
    const dialog = find(name);
    if (name === "label" && !prepareLabel(dialog)) return;
    dialog.querySelector("[role=alert]").hidden = true;
    dialog.showModal();
    dialog.querySelector("input:not([type=hidden])")?.select();
  }

  // The message at the top of the window, or the one that was opened last.
  function prepareLabel(dialog) {
    const i = page.here();
    if (i < 0) { tell("There is no message to label here."); return false; }
    const [, , , name, text, , , label] = page.rows[i];
    find("label-of").textContent = `${name}: ${text}`;
    dialog.querySelector("[name=entry]").value = i;
    find("label-text").value = label;
    return true;
  }

  const done = {
    rename: (told) => { document.querySelector("#bar h1").textContent = told.title; tell("Renamed"); ask(); },
    label: () => { tell("Labelled"); ask(); },
    trash: (told) => {
      try {
        sessionStorage.setItem("sessiontree-trashed", JSON.stringify({ key: told.trashed, title: told.title }));
      } catch { /* storage may be off */ }
      location.assign(`${root}/`);
    },
  };

  for (const dialog of document.querySelectorAll("dialog")) {
    const form = dialog.querySelector("form");
    dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const submit = form.querySelector("[type=submit]");
      submit.disabled = true;
      try {
        const told = await post(`${own}/${form.dataset.action}`, Object.fromEntries(new FormData(form)));
        dialog.close();
        done[form.dataset.action](told);
      } catch (error) {
        const alert = form.querySelector("[role=alert]");
        alert.textContent = error.message;
        alert.hidden = false;
      } finally {
        submit.disabled = false;
      }
    });
  }

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || document.querySelector("dialog[open]")) return;
    const act = {
      "r": () => find("rename") && openDialog("rename"),
      "l": () => find("label") && openDialog("label"),
      "c": () => command?.click(),
      "u": () => location.assign(`${root}/`),
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
})();
