'use strict';

const crypto = require('node:crypto');
const vscode = require('vscode');

// Previews shows the request that an agent's model would receive, next to the YAML. A panel belongs to
// one agent and follows each save.
class Previews {
  constructor(program) {
    this.program = program;
    this.panels = new Map();
    this.saves = vscode.workspace.onDidSaveTextDocument(() => this.refreshAll());
  }

  dispose() {
    this.saves.dispose();
    this.panels.forEach(({ panel }) => panel.dispose());
  }

  show(dir, agent) {
    const key = `${dir}\n${agent}`;
    const open = this.panels.get(key);
    if (open) {
      open.panel.reveal();
      return this.refresh(open);
    }
    const panel = vscode.window.createWebviewPanel('agenthostPreview', `Request: ${agent}`, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true }, { enableScripts: true });
    const preview = { panel, dir, agent, text: '', number: 0 };
    this.panels.set(key, preview);
    panel.onDidDispose(() => this.panels.delete(key));
    panel.webview.onDidReceiveMessage((text) => {
      preview.text = String(text);
      this.refresh(preview);
    });
    panel.webview.html = page(agent);
    return this.refresh(preview);
  }

  refreshAll() {
    this.panels.forEach((preview) => this.refresh(preview));
  }

  // refresh shows the request of the saved files, or why there is none. An answer that a newer one has
  // overtaken is dropped.
  async refresh(preview) {
    const number = ++preview.number;
    const args = ['preview', preview.dir, ...(preview.text ? [preview.text] : []), '--agent', preview.agent, '--session-db', 'memory:'];
    let message;
    try {
      message = { request: await this.program.runJSON(args) };
    } catch (err) {
      message = { error: err.message };
    }
    if (number === preview.number && this.panels.has(`${preview.dir}\n${preview.agent}`)) preview.panel.webview.postMessage(message);
  }
}

// page returns the panel's page. It shows all that it receives as text, so that no instruction or tool
// description becomes markup.
function page(agent) {
  const nonce = crypto.randomBytes(16).toString('base64');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'nonce-${nonce}'; script-src 'nonce-${nonce}'">
<title>Request: ${agent.replace(/[^\w-]/g, '')}</title>
<style nonce="${nonce}">
  body { padding: 0 1em 1em; line-height: 1.45; }
  h2 { font-size: 1em; margin: 1.2em 0 .3em; color: var(--vscode-descriptionForeground); }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; padding: .6em .8em;
    background: var(--vscode-textCodeBlock-background); font-family: var(--vscode-editor-font-family); }
  input { width: 100%; box-sizing: border-box; padding: .4em .6em; margin-top: 1em; color: var(--vscode-input-foreground);
    background: var(--vscode-input-background); border: 1px solid var(--vscode-input-border, transparent); font: inherit; }
  .error { color: var(--vscode-errorForeground); }
</style>
</head>
<body>
<input id="text" placeholder="Next user message, Enter" aria-label="Next user message">
<main id="request" aria-live="polite"></main>
<script nonce="${nonce}">
  const vscode = acquireVsCodeApi();
  document.getElementById('text').addEventListener('change', (e) => vscode.postMessage(e.target.value));
  const textOf = (part) => part.text ?? JSON.stringify(part, null, 2);
  addEventListener('message', ({ data }) => {
    const main = document.getElementById('request');
    main.replaceChildren();
    const add = (title, text, name) => {
      const h = document.createElement('h2');
      h.textContent = title;
      const pre = document.createElement('pre');
      pre.textContent = text;
      if (name) pre.className = name;
      main.append(h, pre);
    };
    if (data.error) return add('The request cannot be built', data.error, 'error');
    const { app, agent, model, systemInstruction, contents = [], tools = [], config = {}, ...rest } = data.request;
    add('Model', model);
    if (systemInstruction) add('Instruction', systemInstruction);
    for (const c of contents) add(c.role ?? 'user', (c.parts ?? []).map(textOf).join('\\n'));
    for (const { name, description, ...declaration } of tools.flatMap((t) => t.functionDeclarations ?? [{ name: 'of the model', ...t }])) {
      add('Tool ' + name, [description, JSON.stringify(declaration, null, 2)].filter(Boolean).join('\\n'));
    }
    if (Object.keys(config).length) add('Settings', JSON.stringify(config, null, 2));
    if (Object.keys(rest).length) add('Notes', JSON.stringify(rest, null, 2));
  });
</script>
</body>
</html>`;
}

exports.Previews = Previews;
