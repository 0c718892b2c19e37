// A living peer that says something every few milliseconds, in a session that others change.
//   node writer.mjs pi ROOT FILE PAUSE_MS      bun writer.mjs omp ROOT FILE PAUSE_MS
// Prints {"ready": true}, then {"id", "parent"} for each line that it takes for written, until its
// input ends; then {"end": {...}} with what it believes the session to be. Input lines are commands:
// {"rename": NAME}, answered by {"renamed": true} or {"error": text}.
import path from "node:path";
import readline from "node:readline";

const [peer, root, file, pause] = process.argv.slice(2);
const isPi = peer === "pi";
const home = isPi
  ? path.join(root, "@earendil-works/pi-coding-agent/dist/core/session-manager.js")
  : path.join(root, "@oh-my-pi/pi-coding-agent/src/session/session-manager.ts");
const { SessionManager } = await import(home);
const manager = await SessionManager.open(file);
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2 };
const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
let count = 0;

function speak() {
  const text = `${peer} ${process.pid} says ${count} ${"x".repeat((count * 37) % 900)}`;
  const content = [{ type: "text", text }];
  const message =
    count++ % 2 === 0
      ? { role: "user", content, timestamp: Date.now() }
      : {
          role: "assistant",
          content,
          api: "messages",
          provider: "anthropic",
          model: "claude-x",
          usage: { ...usage, cost },
          stopReason: "stop",
          timestamp: Date.now(),
        };
  const parent = manager.getLeafId();
  const id = manager.appendMessage(message);
  say({ id, parent });
}

async function obey(command) {
  try {
    if (isPi) manager.appendSessionInfo(command.rename);
    else await manager.setSessionName(command.rename, "user");
    say({ renamed: true });
  } catch (error) {
    say({ error: String(error?.message ?? error) });
  }
}

const input = readline.createInterface({ input: process.stdin });
const timer = setInterval(speak, Number(pause));
input.on("line", (line) => void obey(JSON.parse(line)));
input.on("close", async () => {
  clearInterval(timer);
  let failure = null;
  if (!isPi) {
    try {
      await manager.flush();
      await manager.close();
    } catch (error) {
      failure = String(error?.message ?? error);
    }
  }
  say({ end: { count, failure, file: manager.getSessionFile() ?? null } });
});
say({ ready: true });
