// Display preferences, kept in this browser: the same places as the theme button and the switch in
// the list of keys use.

const DEFAULTS = { theme: "auto", "coppice:shortcuts": "on" };
const theme = document.getElementById("d-theme");
const keys = document.getElementById("d-keys");
const reset = document.getElementById("d-reset");

function read(name) {
  try {
    return localStorage.getItem(name) ?? DEFAULTS[name];
  } catch {
    return DEFAULTS[name];
  }
}

function write(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    return; // storage is refused: nothing is kept
  }
  // Other pages hear of it by themselves; this one has to be told.
  window.dispatchEvent(new StorageEvent("storage", { key: name, newValue: value }));
  show();
}

function show() {
  theme.value = read("theme");
  keys.checked = read("coppice:shortcuts") !== "off";
}

for (const control of [theme, keys, reset]) control.disabled = false;
theme.addEventListener("change", () => write("theme", theme.value));
keys.addEventListener("change", () => write("coppice:shortcuts", keys.checked ? "on" : "off"));
reset.addEventListener("click", () => {
  for (const [name, value] of Object.entries(DEFAULTS)) write(name, value);
});
document.addEventListener("coppice:theme", show);
document.getElementById("keys-enabled")?.addEventListener("change", () => setTimeout(show));
show();
