// The entry for pages that `save_html` writes: each frame is a base64 script element, its view goes in before it.

import { mount } from "./mount";

for (const script of document.querySelectorAll<HTMLScriptElement>("script.rfnb-frame")) {
  const bytes = Uint8Array.from(atob((script.textContent ?? "").trim()), (letter) => letter.charCodeAt(0));
  const place = document.createElement("div");
  script.before(place);
  mount(place, bytes);
  // The picture in the page was for readers without scripts.
  script.parentElement?.querySelector(".rfnb-picture")?.remove();
}
