// What a page cannot do without a script: say what is under the pointer, open boxes in place, and
// keep the figures fresh. Every view works without it.
"use strict";

const every = 5000; // milliseconds between two looks
const tip = document.getElementById("tip");
const status = document.getElementById("status");

// show takes the content of a page into this one. It keeps what has not changed.
const show = (text) => {
  const next = new DOMParser().parseFromString(text, "text/html");
  const [now, then] = [document.getElementById("main"), next.getElementById("main")];
  if (!then || now.innerHTML === then.innerHTML) return false;
  tip.hidden = true;
  const scrolled = [...now.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  document.title = next.title;
  now.replaceWith(then);
  then.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = scrolled[i] ?? 0; });
  document.querySelector("header nav").replaceWith(next.querySelector("header nav"));
  return true;
};

// load reads a page of this server; it throws if there is none.
const load = async (url) => {
  const answer = await fetch(url, { credentials: "same-origin" });
  if (answer.status === 401) throw new Error("open the address again that kubectl ipam ui has printed");
  return answer.text();
};

// visit goes to a page without leaving this one. If that fails, the browser goes there by itself.
const visit = async (url, remember) => {
  try {
    show(await load(url));
  } catch {
    location.assign(url);
    return;
  }
  if (remember) history.pushState(null, "", url);
  const picked = document.querySelector("svg.map a[aria-current]");
  if (picked) picked.focus({ preventScroll: true });
};

document.addEventListener("click", (event) => {
  const link = event.target.closest("svg.map a, .crumbs a, .actions a, .note a");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  visit(link.getAttribute("href"), true);
});
addEventListener("popstate", () => visit(location.href, false));

document.addEventListener("pointermove", (event) => {
  const box = event.target.closest?.("svg.map a");
  tip.hidden = !box;
  if (!box) return;
  tip.textContent = box.getAttribute("aria-label");
  const { offsetWidth: width, offsetHeight: height } = tip;
  tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
  tip.style.top = `${event.clientY + height + 26 > innerHeight ? event.clientY - height - 12 : event.clientY + 18}px`;
});

// refresh reads the page again, unless nobody looks, or somebody is about to type or to copy.
const refresh = async () => {
  const main = document.getElementById("main");
  const busy = document.hidden || !("live" in main.dataset) || !getSelection().isCollapsed;
  if (!busy) {
    const [url, focused] = [location.href, document.activeElement?.getAttribute("href")];
    try {
      const text = await load(url);
      if (url === location.href && show(text) && focused) {
        document.querySelector(`main a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
      }
      status.textContent = "Live";
    } catch (error) {
      status.textContent = `Not fresh: ${error.message}`;
    }
  }
  setTimeout(refresh, every);
};
setTimeout(refresh, every);
document.documentElement.dataset.script = "on";
