// Two steps on one button, where a page of its own would be too much:
//
//   <button data-confirm="Cancel 3 jobs?">Cancel</button>
//
// The first press asks, the second within five seconds does it. Without this script the server asks.
//
// And no form is sent twice: a press while the one before is on its way does nothing.

const SECONDS = 5;

let sent = new WeakSet();

function sendOnce() {
  addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post") return;
    if (sent.has(form)) {
      event.preventDefault();
      return;
    }
    sent.add(form);
    setTimeout(() => sent.delete(form), SECONDS * 1000); // the answer may never come
  });
  addEventListener("pageshow", () => {
    sent = new WeakSet(); // somebody came back
  });
}

export function start() {
  sendOnce();
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button[data-confirm]");
    if (!button) return;
    if (button.dataset.armed) {
      confirmed(button);
      return;
    }
    event.preventDefault();
    arm(button);
  });
}

function arm(button) {
  const before = [...button.childNodes];
  button.dataset.armed = "1";
  button.replaceChildren(button.dataset.confirm);
  button.classList.add("is-armed");
  const disarm = () => {
    clearTimeout(timer);
    button.removeEventListener("blur", disarm);
    delete button.dataset.armed;
    button.classList.remove("is-armed");
    button.replaceChildren(...before);
  };
  const timer = setTimeout(disarm, SECONDS * 1000);
  button.addEventListener("blur", disarm);
  button.addEventListener("keydown", (event) => event.key === "Escape" && disarm(), { once: true });
}

function confirmed(button) {
  const form = button.form;
  if (!form || form.elements.confirmed) return;
  const field = document.createElement("input");
  field.type = "hidden";
  field.name = "confirmed";
  field.value = "yes";
  form.append(field);
}
