// The page of a session: the tree beside the conversation, any branch of it, search within.
//
// Articles become elements only as they come into view. They lie in <noscript> elements (an export)
// or on the server (the viewer). All of their markup was made and escaped by Sessiontree; what this
// script itself shows of a session goes through textContent.
"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const facts = JSON.parse(find("outline").textContent);
  const rows = facts.rows;
  const [ANCHOR, PARENT, KIND, NAME, TEXT, FLAGS, HEIGHT, LABEL, BLOCK] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const HAS_ARTICLE = 1, FAILED = 2;
  const TALK = new Set(["user", "assistant", "command", "note", "compaction", "summary"]);
  const PAGE_PX = 2400, ROW_PX = 26, MOST_FORKS = 8, INDENT_PX = 14, MOST_INDENTS = 12, MOST_ASKED = 400;
  const talk = find("talk"), side = find("side"), list = find("rows"), banner = find("banner");
  const trusted = window.trustedTypes
    ? trustedTypes.createPolicy("sessiontree", { createHTML: (markup) => markup })
    : { createHTML: (markup) => markup };

  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const kind = (i) => facts.kinds[rows[i][KIND]];

  // -- articles -------------------------------------------------------------------------------

  const articles = new Map(); // entry number: element
  const blocks = [...talk.querySelectorAll("noscript")]; // a row says in which its article is
  const isTaken = blocks.map(() => false);

  function take(markup) {
    const template = document.createElement("template");
    template.innerHTML = trusted.createHTML(markup);
    for (const article of [...template.content.children]) {
      const number = Number(article.dataset.i);
      const before = articles.get(number);
      if (before && before.isConnected) before.replaceWith(article);
      articles.set(number, article);
      for (const time of article.getElementsByTagName("time")) showLocalTime(time);
    }
  }

  function showLocalTime(time) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.valueOf())) return;
    time.title = time.textContent;
    time.textContent = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  }

  // Nothing to wait for, or a promise: the viewer has to ask its server.
  function load(numbers) {
    const waiting = [];
    for (const i of numbers) {
      if (articles.has(i)) continue;
      const block = rows[i][BLOCK];
      if (facts.source) waiting.push(i);
      else if (!isTaken[block]) { isTaken[block] = true; take(blocks[block].textContent); }
    }
    return waiting.length && facts.source ? ask(waiting) : null;
  }

  async function ask(numbers) {
    const answer = await fetch(`${facts.source}/entries?n=${ranges(numbers)}`);
    if (!answer.ok) throw new Error(answer.statusText);
    take(await answer.text());
  }

  function askNow(numbers) {
    for (let at = 0; at < numbers.length; at += MOST_ASKED) {
      const request = new XMLHttpRequest();
      request.open("GET", `${facts.source}/entries?n=${ranges(numbers.slice(at, at + MOST_ASKED))}`, false);
      try { request.send(); } catch { return; }
      if (request.status === 200) take(request.responseText);
    }
  }

  function ranges(numbers) {
    const found = [];
    for (const i of numbers) {
      const last = found[found.length - 1];
      if (last && last[1] === i - 1) last[1] = i; else found.push([i, i]);
    }
    return found.map(([from, to]) => (from === to ? from : `${from}-${to}`)).join(",");
  }

  // -- the path that is shown -----------------------------------------------------------------

  let children = [], path = [], shown = new Set(), pages = [];
  const activePath = new Set();

  function link(from) {
    for (let i = from; i < rows.length; i++) {
      children[i] = children[i] || [];
      const parent = rows[i][PARENT];
      if (parent >= 0) (children[parent] = children[parent] || []).push(i);
    }
  }

  function pathTo(leaf) {
    const found = [], met = new Set();
    for (let i = leaf; i >= 0 && !met.has(i); i = rows[i][PARENT]) { found.push(i); met.add(i); }
    return found.reverse();
  }

  function markActive() {
    activePath.clear();
    for (const i of pathTo(facts.leaf)) activePath.add(i);
  }

  // The newest end below an entry; the active one if that is below it.
  function leafBelow(i) {
    if (activePath.has(i)) return facts.leaf;
    for (;;) {
      const below = children[i];
      if (!below.length) return i;
      i = below[below.length - 1];
    }
  }

  const observer = new IntersectionObserver((changes) => {
    for (const change of changes) if (change.isIntersecting) fill(change.target.page);
  }, { rootMargin: "1500px 0px" });

  function show(leaf) {
    path = leaf >= 0 ? pathTo(leaf) : [];
    shown = new Set(path);
    observer.disconnect();
    talk.replaceChildren();
    pages = [];
    lay(path);
    if (!path.some((i) => rows[i][FLAGS] & HAS_ARTICLE)) {
      talk.append(make("p", "nothing", "There is nothing to show on this branch."));
    }
    const isOther = leaf >= 0 && !activePath.has(leaf);
    banner.hidden = !isOther;
    document.documentElement.classList.toggle("off-path", isOther);
    banner.replaceChildren();
    if (isOther) {
      const back = make("button", "", "Back to the active branch");
      back.type = "button";
      back.addEventListener("click", () => { show(facts.leaf); drawTree(); });
      banner.append("This is another branch. ", back);
    }
  }

  function lay(numbers) {
    let page = null;
    for (const i of numbers) {
      if (!(rows[i][FLAGS] & HAS_ARTICLE)) continue;
      if (!page || page.height > PAGE_PX) page = addPage();
      page.numbers.push(i);
      page.height += rows[i][HEIGHT];
    }
    for (const each of pages) {
      if (each.isFilled) continue;
      each.element.style.height = `${each.height}px`;
      observer.observe(each.element);
    }
  }

  function addPage() {
    const page = { element: make("div", "page"), numbers: [], height: 0, isFilled: false, isDrawn: false };
    page.element.page = page;
    pages.push(page);
    talk.append(page.element);
    return page;
  }

  function fill(page) {
    if (page.isFilled) return null;
    page.isFilled = true;
    observer.unobserve(page.element);
    const wait = load(page.numbers);
    if (!wait) { draw(page); return null; }
    return wait.then(() => draw(page), () => { page.isFilled = false; say("The server doesn't answer. Is it still running?"); });
  }

  function draw(page) {
    if (page.isDrawn) return;
    page.isFilled = page.isDrawn = true;
    page.element.style.height = "";
    page.element.style.containIntrinsicSize = `auto ${page.height}px`;
    for (const i of page.numbers) {
      const article = articles.get(i);
      if (!article) continue;
      setFolds(article);
      page.element.append(article, ...forks(i));
    }
    paint();
  }

  const pageOf = (i) => pages.find((page) => page.numbers.includes(i));

  // Where branches part below an entry that is shown: a button for each of the others.
  function forks(i) {
    const others = nearestForks(i);
    if (!others.length) return [];
    const bar = make("div", "forks", others.length === 1 ? "Another branch: " : `${others.length} other branches: `);
    for (const other of others.slice(0, MOST_FORKS)) {
      const first = firstTalk(other);
      const button = make("button", "", rows[first][TEXT] || rows[first][NAME]);
      button.type = "button";
      button.addEventListener("click", () => go(first));
      bar.append(button);
    }
    if (others.length > MOST_FORKS) bar.append(` and ${others.length - MOST_FORKS} more in the tree`);
    return [bar];
  }

  // Entries without an article hang between articles; a fork below one of them is told at the article.
  function nearestForks(i) {
    const found = [];
    let at = i;
    for (;;) {
      const next = children[at].filter((child) => shown.has(child));
      found.push(...children[at].filter((child) => !shown.has(child) && hasTalk(child)));
      if (next.length !== 1 || rows[next[0]][FLAGS] & HAS_ARTICLE) return found;
      at = next[0];
    }
  }

  function hasTalk(i) {
    const stack = [i];
    while (stack.length) {
      const at = stack.pop();
      if (rows[at][FLAGS] & HAS_ARTICLE) return true;
      stack.push(...children[at]);
    }
    return false;
  }

  function firstTalk(i) {
    while (!TALK.has(kind(i)) && children[i].length === 1) i = children[i][0];
    return i;
  }

  // Show an entry, on whatever branch it is.
  async function go(i, { focus = true } = {}) {
    if (!shown.has(i)) show(leafBelow(i));
    let at = i;
    while (at >= 0 && !(rows[at][FLAGS] & HAS_ARTICLE)) at = rows[at][PARENT];
    drawTree();
    if (at < 0) return;
    const page = pageOf(at);
    const wait = fill(page);
    if (wait) await wait;
    const article = articles.get(at);
    if (!article) return;
    history.replaceState(null, "", `#${rows[at][ANCHOR]}`);
    for (const other of talk.querySelectorAll("article.came")) other.classList.remove("came");
    article.classList.add("came");
    here = at;
    article.scrollIntoView({ block: "start" });
    // What was above had only an estimated height: once it is drawn the place is another one.
    requestAnimationFrame(() => article.scrollIntoView({ block: "start" }));
    if (focus) { article.tabIndex = -1; article.focus({ preventScroll: true }); }
    drawTree();
    side.classList.remove("open");
    find("show-tree").setAttribute("aria-expanded", "false");
  }

  function goToHash() {
    const anchor = location.hash.slice(1); // ids in links are plain: nothing to decode
    const i = anchor ? rows.findIndex((row) => row[ANCHOR] === anchor) : -1;
    if (i >= 0) go(i, { focus: false });
    return i >= 0;
  }

  // -- the tree -------------------------------------------------------------------------------

  let lines = [], here = -1;
  const holder = make("ol");
  list.append(holder);

  function isVisible(i) {
    if (hits) return hits.has(i);
    return withTools.checked || TALK.has(kind(i)) || rows[i][LABEL] !== "";
  }

  // Lines in the order of the tree, indented where branches part.
  function layTree() {
    lines = [];
    const above = new Map(), roots = [];
    const kids = new Map();
    for (let i = 0; i < rows.length; i++) {
      const parent = rows[i][PARENT];
      const nearest = parent < 0 ? -1 : above.has(parent) ? above.get(parent) : -1;
      above.set(i, isVisible(i) ? i : nearest);
      if (!isVisible(i)) continue;
      if (nearest < 0) roots.push(i); else if (kids.has(nearest)) kids.get(nearest).push(i); else kids.set(nearest, [i]);
    }
    // Of each level to the left of a line: whether another branch begins further down.
    const stack = [];
    const push = (below, rails) => {
      const isFork = !hits && below.length > 1;
      for (let at = below.length - 1; at >= 0; at--) {
        stack.push([below[at], isFork ? rails + (at < below.length - 1 ? "|" : " ") : rails, isFork]);
      }
    };
    push(roots, "");
    while (stack.length) {
      const [i, rails, isFirst] = stack.pop();
      lines.push([i, rails, isFirst]);
      push(kids.get(i) || [], rails);
    }
    holder.style.height = `${lines.length * ROW_PX}px`;
  }

  function drawTree() {
    const from = Math.max(0, Math.floor(list.scrollTop / ROW_PX) - 10);
    const to = Math.min(lines.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW_PX) + 10);
    const focused = document.activeElement && document.activeElement.closest ? document.activeElement.closest("#rows li") : null;
    const focusedLine = focused ? Number(focused.dataset.line) : -1;
    const made = [];
    for (let at = from; at < to; at++) made.push(treeLine(at));
    holder.replaceChildren(...made);
    if (focusedLine >= from && focusedLine < to) made[focusedLine - from].lastChild.focus({ preventScroll: true });
  }

  function treeLine(at) {
    const [i, rails, isFirst] = lines[at];
    const depth = Math.min(rails.length, MOST_INDENTS);
    const row = rows[i];
    const item = make("li", kind(i));
    item.dataset.line = at;
    item.style.top = `${at * ROW_PX}px`;
    if (shown.has(i)) item.classList.add("shown");
    if (activePath.has(i)) item.classList.add("active");
    if (i === facts.leaf) item.classList.add("leaf");
    if (i === here) item.classList.add("here");
    if (row[FLAGS] & FAILED) item.classList.add("failed");
    const anchor = make("a");
    anchor.href = `#${row[ANCHOR]}`;
    anchor.style.paddingLeft = `${8 + INDENT_PX * depth}px`;
    for (let level = 0; level < depth; level++) {
      const isOwn = isFirst && level === depth - 1;
      if (rails[level] === "|" || isOwn) place("rail", level, item, isOwn && rails[level] !== "|");
      if (isOwn) place("arm", level, item);
    }
    if (i === here) anchor.setAttribute("aria-current", "true");
    anchor.append(make("span", "dot"));
    if (row[LABEL]) anchor.append(make("span", "label", row[LABEL]));
    anchor.append(make("span", "who", row[NAME]), make("span", "what", row[TEXT]));
    anchor.title = row[TEXT];
    item.append(anchor);
    return item;
  }

  function place(name, level, item, isLast = false) {
    const mark = make("span", isLast ? `${name} last` : name);
    mark.style.left = `${11 + INDENT_PX * level}px`;
    item.append(mark);
  }

  function reveal(i) {
    const at = lines.findIndex((line) => line[0] === i);
    if (at < 0) return;
    const top = at * ROW_PX;
    if (top < list.scrollTop || top > list.scrollTop + list.clientHeight - 2 * ROW_PX) {
      list.scrollTop = Math.max(0, top - list.clientHeight / 2);
    }
  }

  holder.addEventListener("click", (event) => {
    const item = event.target.closest("li");
    if (!item) return;
    event.preventDefault();
    go(lines[Number(item.dataset.line)][0]);
  });

  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9 }[event.key];
    if (!step || !lines.length) return;
    event.preventDefault();
    const item = document.activeElement.closest("#rows li");
    const now = item ? Number(item.dataset.line) : Math.max(0, lines.findIndex((line) => line[0] === here)) - Math.sign(step);
    const at = Math.min(lines.length - 1, Math.max(0, now + step));
    const top = at * ROW_PX;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + ROW_PX > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW_PX - list.clientHeight;
    drawTree();
    const target = [...holder.children].find((each) => Number(each.dataset.line) === at);
    if (target) target.lastChild.focus({ preventScroll: true });
  });

  const withTools = find("with-tools");
  withTools.addEventListener("change", () => { layTree(); reveal(here); drawTree(); });
  list.addEventListener("scroll", () => requestAnimationFrame(drawTree), { passive: true });
  addEventListener("resize", () => requestAnimationFrame(drawTree));

  // The entry at the top of the window is marked in the tree.
  let isWatching = false;
  addEventListener("scroll", () => {
    if (isWatching) return;
    isWatching = true;
    setTimeout(() => {
      isWatching = false;
      const bar = find("bar").offsetHeight + 8;
      const element = document.elementFromPoint(talk.getBoundingClientRect().left + 40, bar + 24);
      const article = element && element.closest ? element.closest("article") : null;
      if (!article) return;
      let i = Number(article.dataset.i);
      while (i >= 0 && !isVisible(i)) i = rows[i][PARENT];
      if (i < 0 || i === here) return;
      here = i;
      if (!list.contains(document.activeElement)) reveal(i);
      drawTree();
    }, 80);
  }, { passive: true });

  // -- search within --------------------------------------------------------------------------

  let hits = null, words = [], ordered = [], searching = 0;
  const field = find("find"), told = find("found");
  const texts = new Map(); // entry number: its text, folded
  const ARTICLE = /<article class="[^"]*" id="[^"]*" data-i="(\d+)">([^]*?)<\/article>/g;

  const fold = (text) => text.normalize("NFC").toLowerCase();

  async function search() {
    const run = ++searching;
    const query = fold(field.value.trim());
    words = query ? query.split(/\s+/) : [];
    if (!words.length) {
      hits = null;
      side.classList.remove("searching");
      told.textContent = "";
      paint(); layTree(); reveal(here); drawTree();
      return;
    }
    const found = new Set();
    if (facts.source) {
      const answer = await fetch(`${facts.source}/find?q=${encodeURIComponent(query)}`);
      if (run !== searching) return;
      for (const i of answer.ok ? await answer.json() : []) if (i < rows.length) found.add(i);
    } else {
      let began = performance.now();
      for (let i = 0; i < rows.length; i++) {
        const text = textOf(i);
        if (words.every((word) => text.includes(word))) found.add(i);
        if (performance.now() - began > 30) {
          await new Promise((done) => setTimeout(done));
          if (run !== searching) return;
          began = performance.now();
        }
      }
    }
    hits = found;
    side.classList.add("searching");
    ordered = [...found].sort((a, b) => a - b);
    const elsewhere = ordered.filter((i) => !shown.has(i)).length;
    told.textContent = `${ordered.length} found${elsewhere ? `, ${elsewhere} on other branches` : ""}`;
    paint(); layTree();
    list.scrollTop = 0;
    drawTree();
  }

  // The markup is Sessiontree's own: between its tags is the text, with three characters escaped.
  const strip = (markup) => fold(markup.replace(/<[^>]*>/g, " ").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&"));

  function textOf(i) {
    if (texts.has(i)) return texts.get(i);
    const own = fold(`${rows[i][LABEL]} ${rows[i][NAME]} `);
    if (!(rows[i][FLAGS] & HAS_ARTICLE)) {
      texts.set(i, own + fold(rows[i][TEXT]));
      return texts.get(i);
    }
    for (const [, number, markup] of blocks[rows[i][BLOCK]].textContent.matchAll(ARTICLE)) {
      texts.set(Number(number), `${fold(rows[number][LABEL])} ${strip(markup)}`);
    }
    return texts.get(i) ?? own;
  }

  // Words that were found are marked without changing the page, where the browser can do that.
  function paint() {
    if (!window.Highlight || !CSS.highlights) return;
    CSS.highlights.delete("found");
    if (!words.length) return;
    const ranges = [];
    for (const page of pages) {
      if (!page.isFilled) continue;
      for (const i of page.numbers) if (hits && hits.has(i) && articles.has(i)) mark(articles.get(i), ranges);
      if (ranges.length > 2000) break;
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  }

  function mark(article, ranges) {
    const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    while (walker.nextNode() && ranges.length < 2000) {
      const text = walker.currentNode.data.toLowerCase();
      for (const word of words) {
        for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
          const range = new Range();
          range.setStart(walker.currentNode, at);
          range.setEnd(walker.currentNode, Math.min(at + word.length, walker.currentNode.length));
          ranges.push(range);
        }
      }
    }
  }

  let pause = 0;
  field.addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(search, 120); });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { field.value = ""; search(); field.blur(); }
    if (event.key !== "Enter" || !hits || !ordered.length) return;
    const at = ordered.indexOf(here);
    const next = event.shiftKey ? (at <= 0 ? ordered.length - 1 : at - 1) : (at + 1) % ordered.length;
    go(ordered[next], { focus: false }).then(() => unfold(articles.get(ordered[next])));
  });

  function unfold(article) {
    if (!article) return;
    for (const details of article.querySelectorAll("details")) {
      if (words.some((word) => fold(details.textContent).includes(word))) details.open = true;
    }
  }

  // -- folding, keys, print -------------------------------------------------------------------

  let isUnfolded = false;
  const foldButton = find("fold");
  function setFolds(article) {
    if (isUnfolded) for (const details of article.querySelectorAll("details")) details.open = true;
  }
  foldButton.addEventListener("click", () => {
    isUnfolded = !isUnfolded;
    foldButton.setAttribute("aria-pressed", String(isUnfolded));
    for (const details of talk.querySelectorAll("details")) details.open = isUnfolded;
  });

  find("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try { localStorage.setItem("sessiontree-theme", root.dataset.theme); } catch { /* a file may have no storage */ }
  });

  find("show-tree").addEventListener("click", () => {
    const isOpen = side.classList.toggle("open");
    find("show-tree").setAttribute("aria-expanded", String(isOpen));
    if (isOpen) { drawTree(); list.focus(); }
  });

  function step(by) {
    const prompts = path.filter((i) => kind(i) === "user" && rows[i][FLAGS] & HAS_ARTICLE);
    if (!prompts.length) return;
    const at = by > 0 ? prompts.find((i) => i > here) : [...prompts].reverse().find((i) => i < here);
    if (at !== undefined) go(at);
  }

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && side.classList.contains("open")) {
      side.classList.remove("open");
      find("show-tree").focus();
    }
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const act = {
      "/": () => field.focus(),
      "n": () => step(1),
      "p": () => step(-1),
      "t": () => { if (matchMedia("(max-width: 60rem)").matches) find("show-tree").click(); list.focus(); },
      "f": () => foldButton.click(),
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  // A print waits for nothing but this: what is still at the server has to be here when it ends.
  addEventListener("beforeprint", () => {
    const missing = pages.flatMap((page) => page.numbers).filter((i) => !articles.has(i));
    if (facts.source) askNow(missing); else load(missing);
    for (const page of pages) if (page.numbers.every((i) => articles.has(i))) draw(page);
    for (const table of talk.querySelectorAll(".table")) {
      table.classList.toggle("wide", table.scrollWidth > table.clientWidth);
    }
  });
  addEventListener("hashchange", goToHash);

  function say(text) {
    banner.hidden = false;
    banner.replaceChildren(text);
  }

  // Short sessions are drawn whole when the browser has time, so that its own search finds all of it.
  function fillInIdleTime() {
    const waiting = () => pages.find((page) => !page.isFilled);
    if (facts.source || rows.length > 1500 || !waiting()) return;
    const work = window.requestIdleCallback || ((call) => setTimeout(call, 50));
    work(() => { const page = waiting(); if (page) { fill(page); fillInIdleTime(); } });
  }

  // -- beginning ------------------------------------------------------------------------------

  try {
    const theme = localStorage.getItem("sessiontree-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* a file may have no storage */ }
  for (const element of [find("tools"), side, find("show-tree")]) element.hidden = false;
  document.documentElement.classList.add("has-tree");
  for (const time of find("bar").getElementsByTagName("time")) showLocalTime(time);
  link(0);
  markActive();
  layTree();
  show(facts.leaf);
  here = path.length ? path.find((i) => rows[i][FLAGS] & HAS_ARTICLE) ?? -1 : -1;
  if (!goToHash()) drawTree();
  fillInIdleTime();

  // -- what the viewer's script may ask of this page ------------------------------------------

  const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 160;
  const toEnd = () => scrollTo({ top: document.documentElement.scrollHeight });

  // New rows, other labels, another leaf. A reader at the end follows; whether others miss something.
  async function grow({ rows: added, leaf, labels }) {
    const wasAtEnd = isAtEnd();
    const wasActive = !path.length || path[path.length - 1] === facts.leaf;
    const from = rows.length;
    rows.push(...added);
    link(from);
    relabel(new Map(labels));
    facts.leaf = leaf;
    markActive();
    layTree();
    const isNew = wasActive && follow(pathTo(leaf));
    drawTree();
    if (isNew && wasAtEnd) {
      const last = pages[pages.length - 1];
      if (last) await fill(last);
      toEnd();
    }
    return isNew && !wasAtEnd;
  }

  // Go on along the active branch, or change to it where it has become another one.
  function follow(next) {
    const old = path;
    if (!old.every((i, at) => next[at] === i)) { show(facts.leaf); return true; }
    if (!old.length && next.length) talk.replaceChildren();
    path = next;
    shown = new Set(path);
    lay(next.slice(old.length));
    return next.slice(old.length).some((i) => rows[i][FLAGS] & HAS_ARTICLE);
  }

  function relabel(labels) {
    const changed = [];
    for (let i = 0; i < rows.length; i++) {
      const label = labels.get(i) ?? "";
      if (rows[i][LABEL] === label) continue;
      rows[i][LABEL] = label;
      if (articles.has(i)) changed.push(i);
    }
    if (changed.length) ask(changed).catch(() => {});
  }

  window.sessiontreePage = {
    grow, go, say, quiet: () => { banner.hidden = true; }, rows, kind, isAtEnd, toEnd,
    here: () => here,
  };
})();
