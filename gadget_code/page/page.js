// Signs in (by form, or by the one-time link of `gadget-code up`) and shows what there is.
const byId = (id) => document.getElementById(id);
const api = (path, options = {}) =>
  fetch(`/api/v1${path}`, { ...options, headers: { "Content-Type": "application/json" } });

function list(element, lines, empty) {
  element.replaceChildren(
    ...(lines.length ? lines : [empty]).map((line) => {
      const item = document.createElement("li");
      item.textContent = line;
      return item;
    }),
  );
}

async function show() {
  const me = await api("/users/me");
  byId("sign-in").hidden = me.ok;
  byId("signed-in").hidden = !me.ok;
  if (!me.ok) {
    byId("status").textContent = "Sign in to go on.";
    return;
  }
  byId("status").textContent = `Signed in as ${(await me.json()).email}.`;
  const drones = (await (await api("/drones")).json()).items;
  list(byId("drones"), drones.map((d) => `${d.name}: ${d.status}`), "None yet: start gadget-drone in a directory.");
  const sessions = (await (await api("/sessions?limit=10")).json()).items;
  const turns = await Promise.all(
    sessions.map(async (s) => [s, (await (await api(`/sessions/${s._id}/turns?limit=1`)).json()).items[0]]),
  );
  list(
    byId("turns"),
    turns.filter(([, t]) => t).map(([s, t]) => `${s.name}: ${t.status}${t.statusReason ? ` (${t.statusReason})` : ""}`),
    "None yet.",
  );
}

async function signIn(path, body) {
  const answer = await api(path, { method: "POST", body: JSON.stringify(body) });
  await show();
  if (!answer.ok) byId("status").textContent = (await answer.json()).detail;
}

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  void signIn("/auth/login", Object.fromEntries(new FormData(event.target)));
});
byId("sign-out").addEventListener("click", async () => {
  await api("/auth/logout", { method: "POST" });
  await show();
});

const link = new URLSearchParams(location.hash.slice(1)).get("sign-in");
if (link) {
  history.replaceState(null, "", "/");
  void signIn("/auth/link", { token: link });
} else {
  void show();
}
