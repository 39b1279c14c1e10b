// Copy buttons: a text (data-copy), what an address answers (data-copy-from), or what stands in an
// element, by its id (data-copy-of), so that a secret is on its page once.

export function show() {
  if (!navigator.clipboard) return; // only pages over https, or of this machine, may write there
  for (const button of document.querySelectorAll("[data-copy][hidden], [data-copy-from][hidden], [data-copy-of][hidden]")) button.hidden = false;
}

export function start() {
  show();
  document.addEventListener("coppice:part", show);
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy], [data-copy-from], [data-copy-of]");
    if (!button) return;
    let text = button.dataset.copy;
    const shown = document.getElementById(button.dataset.copyOf ?? "");
    if (shown) text = shown.value ?? shown.textContent;
    if (text === undefined) {
      const answer = await fetch(button.dataset.copyFrom);
      if (!answer.ok) return;
      text = await answer.text();
    }
    await navigator.clipboard.writeText(text);
    button.classList.add("is-done");
    setTimeout(() => button.classList.remove("is-done"), 1200);
  });
}
