// Embeds the chat into another page:
//
//   <script src="https://HOST/chat/APP/embed.js" async></script>
//
// It adds a button that opens the chat in a frame. The frame has its own origin, so neither page
// reads the other; they exchange messages, which both check by origin. Attributes of the script:
// data-label names the button, data-position is right (the default) or left, data-open opens the
// chat at once, and data-token is a token of the signed-in user. window.agenthostChat has open(),
// close(), and getToken, which a page may replace by a function that returns a fresh token.

(() => {
  const script = document.currentScript;
  if (!script || window.agenthostChat) return;
  const address = new URL(script.src);
  const chat = address.href.replace(/\/embed\.js(\?.*)?$/, '');
  const NAME = 'agenthost-chat';
  const { label = 'Chat', position = 'right', token = '' } = script.dataset;
  const side = position === 'left' ? 'left' : 'right';
  let frame = null;

  const style = (node, values) => Object.assign(node.style, values); // a page's policy may forbid style attributes
  const root = document.createElement('div');
  const shadow = root.attachShadow({ mode: 'open' });
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = label;
  button.setAttribute('aria-expanded', 'false');
  style(button, {
    all: 'initial', position: 'fixed', bottom: '20px', [side]: '20px', zIndex: '2147483000', padding: '14px 22px', borderRadius: '999px', cursor: 'pointer',
    font: '600 16px/1.2 system-ui, sans-serif', color: '#fff', background: script.dataset.color || '#1a5fb4', boxShadow: '0 4px 16px rgb(0 0 0 / 25%)',
  });
  button.addEventListener('focus', () => style(button, { outline: '3px solid #fff', outlineOffset: '-6px' }));
  button.addEventListener('blur', () => style(button, { outline: 'none' }));
  button.addEventListener('click', () => api.open());
  shadow.append(button);

  const fit = () => {
    if (!frame) return;
    const isSmall = window.innerWidth < 560 || window.innerHeight < 480;
    style(frame, isSmall ? { inset: '0', width: '100%', height: '100%', borderRadius: '0' }
      : { inset: 'auto', bottom: '20px', [side]: '20px', width: '420px', height: 'min(680px, calc(100vh - 40px))', borderRadius: '16px' });
  };

  const build = () => {
    frame = document.createElement('iframe');
    frame.src = chat;
    frame.title = label;
    frame.setAttribute('sandbox', 'allow-scripts allow-same-origin allow-forms allow-popups allow-popups-to-escape-sandbox allow-downloads');
    frame.allow = `microphone ${address.origin}; camera ${address.origin}; clipboard-write ${address.origin}`;
    frame.referrerPolicy = 'origin';
    style(frame, { position: 'fixed', zIndex: '2147483001', border: '0', boxShadow: '0 8px 32px rgb(0 0 0 / 30%)', colorScheme: 'normal', background: 'transparent' });
    shadow.append(frame);
    fit();
  };

  const post = (message) => frame?.contentWindow?.postMessage({ name: NAME, ...message }, address.origin);

  const sendToken = async () => {
    try {
      post({ type: 'token', token: String(await api.getToken() ?? '') });
    } catch {
      post({ type: 'token', token: '' });
    }
  };

  window.addEventListener('message', ({ source, origin, data }) => {
    if (!frame || source !== frame.contentWindow || origin !== address.origin || data?.name !== NAME) return;
    if (data.type === 'needs-token') sendToken();
    if (data.type === 'close') api.close();
  });
  window.addEventListener('resize', fit);

  const api = window.agenthostChat = {
    getToken: () => token,
    open() {
      if (!frame) build();
      frame.style.display = 'block';
      button.style.display = 'none';
      button.setAttribute('aria-expanded', 'true');
      frame.focus();
      post({ type: 'focus' });
    },
    close() {
      if (!frame) return;
      frame.style.display = 'none'; // the conversation continues
      button.style.display = 'inline-block';
      button.setAttribute('aria-expanded', 'false');
      button.focus();
    },
  };

  const add = () => {
    document.body.append(root);
    if (script.dataset.open !== undefined) api.open();
  };
  if (document.body) add();
  else document.addEventListener('DOMContentLoaded', add);
})();
