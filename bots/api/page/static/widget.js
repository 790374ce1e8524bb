// The page to ask on, and the widget for other pages: <script src="https://HOST/ask/widget.js" defer></script>.
// It makes elements and sets their text; nothing is read as HTML. It stores nothing, and loads nothing.
(() => {
  "use strict";
  const script = document.currentScript;
  const isPage = script.dataset.page === "true";
  const address = new URL("answer", script.src).href;
  const ratingAddress = new URL("rating", script.src).href;
  const TEXTS = {
    en: {
      open: "Ask a question", close: "Close", label: "Your question", send: "Ask", sources: "Sources",
      waiting: "Looking it up …", failed: "No answer came. Please try again.", you: "You asked:", log: "Conversation",
      rate: "Did this help?", up: "Yes, it helped", down: "No, it did not help", rated: "Noted, thank you.",
      unrated: "Taken back.", kept: "A rating keeps your question and this answer for those who run this page.",
    },
    zh: {
      open: "提问", close: "关闭", label: "你的问题", send: "提问", sources: "来源",
      waiting: "正在查找…", failed: "没有收到回答，请再试一次。", you: "你问：", log: "对话",
      rate: "有帮助吗？", up: "有帮助", down: "没有帮助", rated: "已记录，谢谢。",
      unrated: "已撤回。", kept: "评价后，你的问题和这条回答会保存给本页的管理者查看。",
    },
  };
  const lang = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
  const texts = TEXTS[lang];
  const MAX_TURNS = 10;
  const MAX_QUESTION_CHARS = 2000;
  // More is refused.
  const MAX_BODY_BYTES = 64 * 1024;
  // A stream sends something at least every 15 s. If nothing comes, a proxy holds it back.
  const SILENCE_MS = 20000;
  const STYLE = `
    /* What is important inside wins over what is important on the page around it. */
    :host { all: initial !important; display: block !important; color-scheme: light dark !important;
      --ink: light-dark(#1b1f24, #e8eaed); --ground: light-dark(#ffffff, #1b1f24);
      --soft: light-dark(#f0f2f5, #2a3038); --line: light-dark(#6b7480, #9aa4b0);
      --strong: light-dark(#0b57d0, #a8c7fa); --on-strong: light-dark(#ffffff, #0b1a33);
      font: 16px/1.5 system-ui, sans-serif !important; color: var(--ink) !important; }
    :host(.page) { position: fixed !important; inset: 0 !important; background: var(--ground) !important; }
    :host(.widget) { position: fixed !important; right: 16px !important; bottom: 16px !important;
      z-index: 2147483000 !important; }
    * { box-sizing: border-box; }
    button { font: inherit; min-width: 44px; min-height: 44px; padding: 8px 16px; border: 0; border-radius: 22px;
      background: var(--strong); color: var(--on-strong); cursor: pointer; }
    button[aria-disabled] { opacity: 0.6; cursor: default; }
    :focus-visible { outline: 3px solid var(--strong); outline-offset: 2px; }
    .panel { display: flex; flex-direction: column; background: var(--ground); color: var(--ink); }
    .panel[hidden] { display: none; }
    :host(.page) .panel { height: var(--height, 100dvh); max-width: 720px; margin: 0 auto; }
    :host(.widget) .panel { position: fixed; right: 16px; bottom: var(--bottom, 16px); width: min(400px, 100vw - 32px);
      height: min(600px, var(--height, 100dvh) - 32px); border: 1px solid var(--line); border-radius: 12px; }
    .head { display: flex; align-items: center; justify-content: space-between; padding: 8px 8px 8px 16px; }
    h1 { font-size: 18px; margin: 0; }
    .log { flex: 1; overflow-y: auto; overflow-wrap: anywhere; padding: 0 16px; min-height: 0; }
    .question { background: var(--soft); border-radius: 12px; padding: 8px 12px; margin: 16px 0 8px;
      white-space: pre-wrap; }
    .hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
    pre { background: var(--soft); padding: 8px; border-radius: 8px; overflow-x: auto; }
    code { font: 14px/1.4 ui-monospace, monospace; }
    blockquote { margin: 8px 0; padding-left: 12px; border-left: 3px solid var(--line); }
    a { color: var(--strong); }
    .host { color: var(--ink); font-size: 14px; }
    h2 { font-size: 16px; margin: 12px 0 4px; }
    .rating { display: flex; flex-wrap: wrap; align-items: center; gap: 8px; margin: 12px 0; }
    .rating button { background: var(--soft); color: var(--ink); border: 2px solid transparent; }
    .rating button[aria-pressed="true"] { border-color: var(--strong); }
    .note { font-size: 14px; flex-basis: 100%; margin: 0; }
    ol, ul { margin: 4px 0; padding-left: 28px; }
    form { display: flex; gap: 8px; padding: 12px 16px; align-items: flex-end; }
    textarea { flex: 1; font: 16px/1.4 system-ui, sans-serif; min-height: 44px; max-height: 30dvh; padding: 9px 12px;
      border: 1px solid var(--line); border-radius: 12px; background: var(--ground); color: var(--ink); resize: none; }
  `;

  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };

  // --- Markdown, of which a small set is known; everything else is text.

  const getSafeUrl = (text) => {
    try {
      const url = new URL(text);
      return ["http:", "https:", "mailto:"].includes(url.protocol) ? url : null;
    } catch {
      return null;
    }
  };

  // The text of a link is anybody's: the host that it leads to stands beside it.
  const makeLink = (text, target) => {
    const url = getSafeUrl(target);
    if (!url) return [text];
    const link = make("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" }, text);
    const host = url.host || url.pathname;
    return text === url.href || text === host ? [link] : [link, make("span", { class: "host" }, ` (${host})`)];
  };

  const makeMark = (number, citations) => {
    const citation = citations.find((one) => one.n === number);
    const url = citation && getSafeUrl(citation.url);
    if (!url) return [`[${number}]`];
    const title = `${citation.title || citation.path} (${url.host})`;
    return [make("a", { href: url.href, target: "_blank", rel: "noopener noreferrer", title }, `[${number}]`)];
  };

  const INLINE = new RegExp([
    "`([^`\\n]{1,500})`", // 1: code
    "!\\[([^\\]\\n]{0,300})\\]\\(<?([^\\s<>)]{0,2000})>?\\)", // 2, 3: a picture, which is not loaded
    "\\[([^\\]\\n]{1,300})\\]\\(<?([^\\s<>)]{0,2000})>?\\)", // 4, 5: a link
    "\\[(\\d{1,3})\\]", // 6: the mark of a citation
    "\\*\\*([^*\\n]{1,500})\\*\\*", // 7: strong
    "\\*([^*\\s][^*\\n]{0,500})\\*", // 8: emphasis
    "(https?://[^\\s<>()\\[\\]\"'`]{1,2000}[^\\s<>()\\[\\]\"'`.,;:!?])", // 9: an address
  ].join("|"), "g");

  const renderInline = (text, citations) => {
    const parts = [];
    let end = 0;
    for (const match of text.matchAll(INLINE)) {
      parts.push(text.slice(end, match.index));
      end = match.index + match[0].length;
      if (match[1] !== undefined) parts.push(make("code", {}, match[1]));
      else if (match[3] !== undefined) parts.push(...makeLink(match[2] || match[3], match[3]));
      else if (match[5] !== undefined) parts.push(...makeLink(match[4], match[5]));
      else if (match[6] !== undefined) parts.push(...makeMark(Number(match[6]), citations));
      else if (match[7] !== undefined) parts.push(make("strong", {}, ...renderInline(match[7], citations)));
      else if (match[8] !== undefined) parts.push(make("em", {}, ...renderInline(match[8], citations)));
      else parts.push(...makeLink(match[9], match[9]));
    }
    return [...parts, text.slice(end)];
  };

  // `.` and `$` of the pattern below know more ends of lines than one.
  const LINE_END = /\r\n?|[\n\u2028\u2029]/;

  const renderMarkdown = (text, citations) => {
    const blocks = [];
    let code = null;
    let open = { kind: "", element: null };
    const add = (kind, name) => {
      if (open.kind !== kind) {
        open = { kind, element: make(name) };
        blocks.push(open.element);
      }
      return open.element;
    };
    for (const line of text.split(LINE_END)) {
      if (/^\s{0,3}```/.test(line)) {
        code = code ? null : make("code");
        if (code) blocks.push(make("pre", { tabindex: "0" }, code));
        open = { kind: "", element: null };
      } else if (code) {
        code.append(`${line}\n`);
      } else if (!line.trim()) {
        open = { kind: "", element: null };
      } else {
        const [, quote, item, heading, rest] = /^\s{0,9}(?:(>)|([-*]|\d{1,3}[.)])(?=\s)|(#{1,6})(?=\s))?\s?(.*)$/.exec(line);
        const inline = renderInline(rest, citations);
        if (heading) blocks.push(make("h2", {}, ...inline));
        else if (item) add(/\d/.test(item) ? "ol" : "ul", /\d/.test(item) ? "ol" : "ul").append(make("li", {}, ...inline));
        else if (quote) add("quote", "blockquote").append(...inline, make("br"));
        else add("text", "p").append(...inline, "\n");
        if (heading) open = { kind: "", element: null };
      }
    }
    return blocks;
  };

  const renderSources = (citations) => {
    if (!citations.length) return [];
    const items = citations.map((one) => {
      const title = one.title || one.path;
      const place = getSafeUrl(one.url) ? makeLink(title, one.url) : [title];
      return make("li", { value: String(one.n) }, ...place);
    });
    return [make("h2", {}, texts.sources), make("ol", {}, ...items)];
  };

  // --- The elements.

  const host = make("div", { class: isPage ? "page" : "widget" });
  const root = host.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  root.adoptedStyleSheets = [sheet];

  const opener = make("button", { type: "button", "aria-expanded": "false", "aria-controls": "panel" }, texts.open);
  const closer = make("button", { type: "button", "aria-label": texts.close }, "×");
  const log = make("div", { class: "log", role: "log", "aria-label": texts.log, tabindex: "0" });
  const field = make("textarea", { id: "field", rows: "1", maxlength: String(MAX_QUESTION_CHARS) });
  const sender = make("button", { type: "submit" }, texts.send);
  const form = make("form", {}, make("label", { for: "field", class: "hidden" }, texts.label), field, sender);
  const header = make("div", { class: "head" }, make("h1", {}, texts.open), ...(isPage ? [] : [closer]));
  const role = isPage ? { role: "main" } : { role: "dialog", "aria-label": texts.open, hidden: "" };
  const panel = make("div", { id: "panel", class: "panel", lang, ...role }, header, log, form);
  root.append(...(isPage ? [panel] : [opener, panel]));

  const setOpen = (isOpen) => {
    panel.hidden = !isOpen;
    opener.hidden = isOpen;
    opener.setAttribute("aria-expanded", String(isOpen));
    (isOpen ? field : opener).focus();
  };
  opener.addEventListener("click", () => setOpen(true));
  closer.addEventListener("click", () => setOpen(false));
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !isPage) setOpen(false);
    if (event.key === "Enter" && event.target === field && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });

  // A keyboard on the screen covers what is below: the panel has the height of what can be seen.
  const viewport = window.visualViewport;
  const fit = () => {
    host.style.setProperty("--height", `${viewport.height}px`);
    host.style.setProperty("--bottom", `${Math.max(0, window.innerHeight - viewport.height - viewport.offsetTop) + 16}px`);
  };
  if (viewport) {
    viewport.addEventListener("resize", fit);
    viewport.addEventListener("scroll", fit);
    fit();
  }

  // --- Questions and answers.

  const turns = [];
  let isAsking = false;

  const post = async (url, body, signal) => {
    const headers = { "Content-Type": "application/json" };
    const response = await fetch(url, { method: "POST", credentials: "omit", headers, body, signal });
    if (!response.ok) throw new Error((await response.json()).error.message);
    return response;
  };

  // No connection, or no answer of ours: a proxy's own page is no JSON.
  const describe = (error) => (error instanceof TypeError || error instanceof SyntaxError ? texts.failed : error.message);

  const request = async (isStreaming, signal) => {
    // The first one tells conversations apart.
    const messages = [...turns.slice(0, 1), ...turns.slice(1).slice(-MAX_TURNS)];
    const encode = () => new TextEncoder().encode(JSON.stringify({ messages, stream: isStreaming }));
    let body = encode();
    // The oldest go first; the question stays.
    while (body.length > MAX_BODY_BYTES && messages.length > 1) {
      messages.splice(messages.length > 2 ? 1 : 0, 1);
      body = encode();
    }
    return post(address, body, signal);
  };

  async function* readEvents(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) yield line.startsWith("data: ") ? JSON.parse(line.slice(6)) : {};
    }
  }

  const ask = async (show) => {
    const asking = new AbortController();
    let silence;
    const whole = new Promise((resolve) => {
      silence = setTimeout(async () => {
        try {
          const reply = await (await request(false, asking.signal)).json();
          resolve(reply);
        } catch {
          // The stream is still on its way, and says itself what goes wrong.
        }
      }, SILENCE_MS);
    });
    const stream = async () => {
      let text = "";
      for await (const event of readEvents(await request(true, asking.signal))) {
        clearTimeout(silence);
        if (event.error) throw new Error(event.error.message);
        if (event.answer !== undefined) return event;
        if (event.part) show((text += event.part), []);
      }
      throw new Error(texts.failed);
    };
    try {
      return await Promise.race([stream(), whole]);
    } finally {
      clearTimeout(silence);
      asking.abort();
    }
  };

  // Two thumbs, of which one may be pressed; pressed again, it is taken back.
  const renderRating = (id) => {
    if (!id) return [];
    const note = make("p", { class: "note" }, texts.kept);
    const thumbs = [["up", "👍"], ["down", "👎"]].map(([verdict, sign]) => {
      const thumb = make("button", { type: "button", "aria-pressed": "false", "aria-label": texts[verdict] }, sign);
      thumb.addEventListener("click", async () => {
        const isPressed = thumb.getAttribute("aria-pressed") === "true";
        try {
          await post(ratingAddress, JSON.stringify({ id, verdict: isPressed ? "" : verdict }));
          for (const one of thumbs) one.setAttribute("aria-pressed", String(one === thumb && !isPressed));
          note.textContent = isPressed ? texts.unrated : texts.rated;
        } catch (error) {
          note.textContent = describe(error);
        }
      });
      return thumb;
    });
    return [make("div", { class: "rating", role: "group", "aria-label": texts.rate }, texts.rate, ...thumbs, note)];
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const question = field.value.trim();
    if (!question || isAsking) return;
    field.value = "";
    isAsking = true;
    // A button that is disabled would lose the focus.
    sender.setAttribute("aria-disabled", "true");
    const answer = make("div", { class: "answer" }, make("p", {}, texts.waiting));
    const asked = make("div", { class: "question" }, make("span", { class: "hidden" }, texts.you), question);
    log.setAttribute("aria-busy", "true");
    log.append(asked, answer);
    asked.scrollIntoView({ block: "start" });
    turns.push({ role: "user", content: question });
    try {
      const reply = await ask((text, citations) => answer.replaceChildren(...renderMarkdown(text, citations)));
      turns.push({ role: "assistant", content: reply.answer });
      answer.replaceChildren(...renderMarkdown(reply.answer, reply.citations), ...renderSources(reply.citations),
        ...renderRating(reply.id));
    } catch (error) {
      turns.pop();
      answer.replaceChildren(make("p", { role: "alert" }, describe(error)));
    } finally {
      log.removeAttribute("aria-busy");
      isAsking = false;
      sender.removeAttribute("aria-disabled");
    }
  });

  const insert = () => document.body.append(host);
  if (document.body) insert();
  else document.addEventListener("DOMContentLoaded", insert);
})();
