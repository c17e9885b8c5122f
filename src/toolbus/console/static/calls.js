// Copies what a button names: `data-copy` is the id of the text.
"use strict";

document.addEventListener("click", async ({ target }) => {
  const text = target.dataset?.copy && document.getElementById(target.dataset.copy);
  if (!text) return;
  try {
    await navigator.clipboard.writeText(text.textContent);
    target.textContent = "Copied";
  } catch { // without HTTPS, or if the person said no: select it, to be copied by keyboard
    getSelection().selectAllChildren(text);
    target.textContent = "Selected";
  }
  setTimeout(() => { target.textContent = "Copy"; }, 2000);
});
