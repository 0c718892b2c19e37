// One living peer behind a JSON-lines pipe: node runs pi, bun runs omp.
//   node driver.mjs pi ROOT      node driver.mjs old-pi ROOT      bun driver.mjs omp ROOT
// ROOT is a node_modules folder. "old-pi" is the pi that wrote files before it moved to its new name.
// A request is {"op", ...}; the answer {"ok": value} or {"error": text}. The peer writes through its
// public SessionManager only; nothing here knows the file format.
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";

const [peer, root] = process.argv.slice(2);
const isNewPi = peer === "pi";
const isPi = isNewPi || peer === "old-pi";
const homes = {
  pi: "@earendil-works/pi-coding-agent/dist",
  "old-pi": "@mariozechner/pi-coding-agent/dist",
  omp: "@oh-my-pi/pi-coding-agent/src",
};
const home = path.join(root, homes[peer]);
const { SessionManager, ...managerModule } = await import(
  path.join(home, isPi ? "core/session-manager.js" : "session/session-manager.ts")
);
const listing = isPi ? managerModule : await import(path.join(home, "session/session-listing.ts"));
const messages = await import(path.join(home, isPi ? "core/messages.js" : "session/messages.ts"));
const transcript = isNewPi && (await import(path.join(root, "@earendil-works/pi-ai/dist/utils/transcript.js")));
const totals = isNewPi && (await import(path.join(home, "core/usage-totals.js")));

// Steps refer to entries by the number of the step that made them; -1 is "before the first entry".
const actions = {
  message: (m, s) => m.appendMessage(s.message),
  thinking: (m, s) => m.appendThinkingLevelChange(s.level),
  model: (m, s) => {
    if (!isPi) return m.appendModelChange(`${s.provider}/${s.model}`, s.role);
    return m.appendModelChange(s.provider, s.model);
  },
  compaction: (m, s, id) =>
    isPi
      ? m.appendCompaction(s.summary, id(s.keep) ?? undefined, s.tokens, s.details, s.extension, s.usage)
      : m.appendCompaction(s.summary, s.short, id(s.keep), s.tokens, {
          details: s.details,
          fromExtension: s.extension,
          preserveData: s.preserve,
          providerReplayThroughEntryId: id(s.through ?? null) ?? undefined,
        }),
  custom: (m, s) => m.appendCustomEntry(s.kind, s.data),
  custom_message: (m, s) => m.appendCustomMessageEntry(s.kind, s.content, s.display, s.details),
  label: (m, s, id) => m.appendLabelChange(id(s.target), s.label),
  branch: (m, s, id) => void m.branch(id(s.to)),
  reset: (m) => void m.resetLeaf(),
  branch_summary: (m, s, id) => m.branchWithSummary(id(s.to), s.summary, s.details, s.extension, s.usage),
  // A manager that was opened again may be on another branch than the script believes.
  context_edit: (m, s, id) =>
    m.getBranch().some((entry) => entry.id === id(s.target))
      ? m.appendContextEdit(id(s.target), s.replacement)
      : null,
  usage: (m, s) => m.appendUsage(s.kind, s.provider, s.model, s.usage, s.note).id,
  name: async (m, s) => {
    if (isPi) return m.appendSessionInfo(s.name);
    const before = m.getLeafId();
    await m.setSessionName(s.name, s.source ?? "user");
    return m.getLeafId() === before ? null : m.getLeafId();
  },
  ttsr: (m, s) => m.appendTtsrInjection(s.rules),
  mode: (m, s) => m.appendModeChange(s.mode, s.data),
  init: (m, s) => m.appendSessionInit({ systemPrompt: s.prompt, task: s.task, tools: s.tools, outputSchema: s.schema }),
  reset_boundary: (m) => m.appendResetBoundary(),
  service_tier: (m, s) => m.appendServiceTierChange(s.tier),
  credential_pin: (m, s) => m.appendCredentialPin(s.provider, s.hash),
};

async function play(manager, steps, known = []) {
  const made = [...known];
  const id = (n) => (n === null || n === -1 ? null : typeof n === "string" ? n : made[n]);
  for (const step of steps) {
    const act = actions[step.do];
    if (!act) throw new Error(`unknown step ${step.do}`);
    made.push((await act(manager, step, id)) ?? null);
  }
  return made;
}

const shape = (nodes) => {
  // Pre-order with child counts: flat, so a 100,000-deep tree does not exhaust JSON.stringify.
  const out = [];
  const stack = [...nodes].reverse();
  while (stack.length) {
    const node = stack.pop();
    out.push([node.entry.id, node.children.length, node.label ?? null]);
    for (let i = node.children.length - 1; i >= 0; i--) stack.push(node.children[i]);
  }
  return out;
};

// What a model is given that takes system messages at the head only.
const toLlm = (given) => {
  const converted = messages.convertToLlm(given);
  return isNewPi ? transcript.collapseSystemMessages({ messages: converted }).messages : converted;
};

function state(m) {
  const entries = m.getEntries();
  const context = m.buildSessionContext();
  const labels = {};
  for (const entry of entries) if (m.getLabel(entry.id)) labels[entry.id] = m.getLabel(entry.id);
  return {
    header: m.getHeader(),
    entries,
    leaf: m.getLeafId(),
    branch: m.getBranch().map((entry) => entry.id),
    labels,
    name: m.getSessionName() ?? null,
    context,
    llm: toLlm(context.messages),
    usage: isNewPi ? totals.getUsageCostBreakdown(entries) : null,
    roots: m.getTree().length,
    tree: shape(m.getTree()),
    file: m.getSessionFile() ?? null,
    id: m.getSessionId(),
  };
}

async function finish(manager) {
  if (isPi) return;
  await manager.flush();
  await manager.close();
}

const plainInfo = (info) => ({
  path: info.path,
  id: info.id,
  cwd: info.cwd,
  title: (isPi ? info.name : info.title) ?? null,
  parent: info.parentSessionPath ?? null,
  created: info.created.getTime(),
  modified: info.modified.getTime(),
  count: info.messageCount,
  first: info.firstMessage,
  text: info.allMessagesText,
  status: info.status ?? null,
});

const held = new Map();

const ops = {
  ping: () => "pong",
  // A new session made of these steps.
  write: async ({ cwd, dir, steps, id }) => {
    const manager = SessionManager.create(cwd, dir, id === undefined ? undefined : { id });
    const ids = await play(manager, steps);
    const file = manager.getSessionFile();
    await finish(manager);
    return { ids, file };
  },
  // An existing session, carried on.
  append: async ({ file, steps, ids }) => {
    const manager = await SessionManager.open(file);
    const made = await play(manager, steps, ids ?? []);
    await finish(manager);
    return { ids: made };
  },
  read: async ({ file }) => {
    const manager = await SessionManager.open(file);
    const seen = state(manager);
    await finish(manager);
    return seen;
  },
  list: async ({ cwd, dir }) => (await SessionManager.list(cwd, dir)).map(plainInfo),
  list_all: async () => (await SessionManager.listAll()).map(plainInfo),
  continue: async ({ cwd, dir }) => {
    const manager = await SessionManager.continueRecent(cwd, dir);
    return { file: manager.getSessionFile(), id: manager.getSessionId(), header: manager.getHeader() };
  },
  folder: ({ cwd }) =>
    isPi ? managerModule.getDefaultSessionDir(cwd) : SessionManager.getDefaultSessionDir(cwd),
  fork: async ({ file, cwd, dir }) => {
    const manager = await SessionManager.forkFrom(file, cwd, dir);
    const made = manager.getSessionFile();
    const seen = state(manager);
    await finish(manager);
    return { ...seen, file: made };
  },
  branched: async ({ file, dir, leaf }) => {
    const manager = await SessionManager.open(file, dir);
    const made = manager.createBranchedSession(leaf ?? manager.getLeafId());
    await finish(manager);
    return made;
  },
  resolve: async ({ id, cwd, dir }) =>
    (await listing.resolveResumableSession(id, cwd, dir))?.session.path ?? null,
  search: async ({ cwd, dir, query }) => {
    const all = await SessionManager.list(cwd, dir);
    const component = isPi
      ? "modes/interactive/components/session-selector-search.js"
      : "modes/components/session-selector.ts";
    const picker = await import(path.join(home, component));
    const found = isPi
      ? picker.filterAndSortSessions(all, query, "recent")
      : picker.rankSessionSearchMatches(all, query);
    return found.map((info) => (info.session ?? info).path);
  },
  // omp's prompt history; pi has none.
  remember: async ({ prompts, cwd }) => {
    const store = (await import(path.join(home, "session/history-storage.ts"))).HistoryStorage.open();
    for (const prompt of prompts) await store.add(prompt, cwd);
    return null;
  },
  recall: async ({ query, limit }) => {
    const store = (await import(path.join(home, "session/history-storage.ts"))).HistoryStorage.open();
    const rows = query === undefined ? store.getRecent(limit) : store.search(query, limit);
    return rows.map((row) => row.prompt);
  },
  llm: ({ messages: given }) => toLlm(given),
  // A manager that stays open between requests, for races with the file system.
  hold: async ({ key, file }) => {
    held.set(key, await SessionManager.open(file));
    return held.get(key).getLeafId();
  },
  play: async ({ key, steps, ids }) => play(held.get(key), steps, ids ?? []),
  state: ({ key }) => state(held.get(key)),
  release: async ({ key }) => {
    await finish(held.get(key));
    held.delete(key);
    return null;
  },
};

const say = (value) => {
  let bytes = Buffer.from(`${JSON.stringify(value)}\n`);
  while (bytes.length) {
    try {
      bytes = bytes.subarray(fs.writeSync(1, bytes));
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
};
// The peers may log; the pipe belongs to the answers.
console.log = console.info = console.warn = (...words) => console.error(...words);
say({ ok: "ready" });
for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  if (!line) continue;
  try {
    const request = JSON.parse(line);
    const op = ops[request.op];
    if (!op) throw new Error(`unknown op ${request.op}`);
    say({ ok: (await op(request)) ?? null });
  } catch (error) {
    say({ error: `${error?.name ?? "Error"}: ${error?.message ?? error}` });
  }
}
process.exit(0);
