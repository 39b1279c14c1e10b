// Keys: each is also a control on the page. Off inside fields, and off for good by the switch in the
// list of keys ("?") or among the display preferences, for those who steer by speech.

let isOn = document.body.dataset.keys !== "off";
let wentTo = 0;

export function start(actions) {
  const dialog = document.getElementById("keys");
  const enabled = document.getElementById("keys-enabled");
  if (enabled) {
    enabled.checked = isOn;
    enabled.addEventListener("change", () => keep(enabled.checked));
  }
  document.getElementById("keys-open")?.addEventListener("click", () => dialog?.showModal());
  document.addEventListener("keydown", (event) => {
    if (!isOn || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    const key = event.key;
    if (Date.now() - wentTo < 1500 && go(key)) {
      wentTo = 0;
      event.preventDefault();
    } else if (key === "g") {
      wentTo = Date.now();
    } else if (key === "?") {
      dialog?.showModal();
      event.preventDefault();
    } else if (key === "/") {
      const find = document.getElementById("find");
      if (!find) return;
      find.focus();
      find.select();
      event.preventDefault();
    } else if (actions[key] && actions[key](event) !== false) {
      event.preventDefault();
    }
  });
}

function go(key) {
  const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
  if (link) location.assign(link.href);
  return Boolean(link);
}

function isTyping(target) {
  return target instanceof Element && Boolean(target.closest("input:not([type=checkbox]), select, textarea, [contenteditable]"));
}

// Kept by the server, with the form of the theme. If that fails, it lasts as long as the page.
async function keep(on) {
  isOn = on;
  const form = document.getElementById("theme")?.form;
  if (!form) return;
  const body = new FormData(form);
  body.set("only", "shortcuts");
  if (on) body.set("shortcuts", "on");
  try {
    await fetch(form.action, { method: "POST", body, headers: { "X-Coppice-Part": "1" }, redirect: "manual", keepalive: true });
  } catch {
    // The network is away.
  }
}
