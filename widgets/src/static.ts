// Views without a kernel: each frame is base64 in an element beside its picture, and its view replaces the picture. For pages of `save_html` and
// the stored outputs of notebooks (rfnb/viz/page/output.py), where several share this script. It is not a module, since VS Code's notebooks
// import none.

import { mount } from "./mount";

/** Shows the frames in a part of a page that are not shown yet. Those that cannot be shown stay pictures, with a sentence. */
export function show(part: ParentNode, css = ""): void {
  for (const held of part.querySelectorAll<HTMLElement>(".rfnb-frame:not([data-shown])")) {
    held.dataset["shown"] = "";
    const place = document.createElement("div");
    held.before(place);
    if (css) style(place.getRootNode(), css);
    mount(place, bytesOf(held.dataset["bytes"] ?? ""));
    if (!place.querySelector(":scope > .rfnb-root > .rfnb-failed"))
      held.parentElement?.querySelector(".rfnb-picture")?.remove();
  }
}

/** The bytes of a frame; none for invalid base64, which a view reports. */
function bytesOf(text: string): Uint8Array {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

/** The style sheet, once in a document or shadow tree. */
function style(root: Node, css: string): void {
  const top = root instanceof Document ? root.head : (root as ShadowRoot);
  if (top.querySelector("style.rfnb-style")) return;
  const element = document.createElement("style");
  element.className = "rfnb-style";
  element.textContent = css;
  top.append(element);
}

// A page of `save_html` has this script itself; a stored output takes it from the script element.
if (document.querySelector("main.rfnb-page")) show(document);
else if (document.currentScript) Object.assign(document.currentScript, { show });
