// Copy buttons: a text (data-copy), or what an address answers (data-copy-from).

export function show() {
  if (!navigator.clipboard) return; // only pages over https, or of this machine, may write there
  for (const button of document.querySelectorAll("[data-copy][hidden], [data-copy-from][hidden]")) button.hidden = false;
}

export function start() {
  show();
  document.addEventListener("coppice:part", show);
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy], [data-copy-from]");
    if (!button) return;
    let text = button.dataset.copy;
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
