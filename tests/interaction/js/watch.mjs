// A browser's client without a browser: signs in over the socket, sends a prompt, prints what it is sent.
// node watch.mjs URL TOKEN SESSION PROMPT
import { io } from "socket.io-client";

const [url, token, session, prompt] = process.argv.slice(2);
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const fail = (what, error) => {
  say({ failed: what, message: error?.message, data: error?.data });
  process.exit(1);
};
setTimeout(() => fail("time-out"), 60_000).unref();

const socket = io(url, { auth: { token }, transports: ["websocket"], extraHeaders: { Origin: url } });
socket.on("connect_error", (error) => fail("connect", error));
let turn;
socket.onAny((event, payload) => {
  say({ event, payload });
  if (event === "workOrderComplete" && payload.turnId === turn) socket.close();
});
socket.on("connect", async () => {
  const selected = await socket.timeout(10_000).emitWithAck("selectSession", { chatSessionId: session });
  say({ reply: "selectSession", payload: selected });
  const submitted = await socket
    .timeout(10_000)
    .emitWithAck("submitPrompt", { chatSessionId: session, content: prompt, promptId: "from-javascript" });
  say({ reply: "submitPrompt", payload: submitted });
  turn = submitted.turn._id;
});
