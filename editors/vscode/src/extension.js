// The extension is a thin layer: the language server, the tests and the previews are the agenthost
// program. What VS Code does not get by the Language Server Protocol is here: the test explorer, the
// preview panel, and terminals.
'use strict';

const path = require('node:path');
const vscode = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');
const { Previews } = require('./previews');
const { Program } = require('./program');
const { Tests } = require('./tests');

// The commands that the server's code lenses name. VS Code runs two of them in its own views.
const runTest = 'agenthost.runTest';
const previewAgent = 'agenthost.previewAgent';

let client;

exports.activate = async function (context) {
  const log = vscode.window.createOutputChannel('agenthost');
  const program = new Program(log);
  const tests = new Tests(program);
  const previews = new Previews(program);
  context.subscriptions.push(log, tests, previews);

  const start = async () => {
    await exports.deactivate();
    client = newClient(program, tests, previews, log);
    try {
      await client.start();
    } catch (err) {
      client = undefined;
      program.reportMissing(err);
    }
  };
  context.subscriptions.push(
    vscode.commands.registerCommand('agenthost.restart', start),
    vscode.commands.registerCommand('agenthost.talk', () => inTerminal(program, ['run'])),
    vscode.commands.registerCommand('agenthost.serve', () => inTerminal(program, ['serve'], ['--dev'])),
    vscode.workspace.onDidChangeConfiguration((e) => {
      if (e.affectsConfiguration('agenthost')) start();
    }),
  );
  await start();
  await tests.discoverAll();
};

exports.deactivate = async function () {
  const running = client;
  client = undefined;
  if (running) await running.stop();
};

function newClient(program, tests, previews, log) {
  const server = { command: program.path, args: ['lsp', ...program.args], options: { cwd: program.folder } };
  return new LanguageClient('agenthost', 'agenthost', server, {
    // The server answers only about files in app folders, so that other YAML stays as it is.
    documentSelector: [
      { scheme: 'file', language: 'yaml' },
      { scheme: 'file', language: 'dockercompose' },
      { scheme: 'file', pattern: '**/*.{md,txt}' },
    ],
    synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher('**/*.{yaml,yml,json,md,txt,env}') },
    outputChannel: log,
    middleware: {
      executeCommand: async (command, args, next) => {
        switch (command) {
          case runTest:
            return tests.runNamed(args[0], args[1]);
          case previewAgent:
            return previews.show(args[0], args[1]);
        }
        return next(command, args);
      },
    },
  });
}

function inTerminal(program, before, after = []) {
  const file = vscode.window.activeTextEditor?.document.uri.fsPath;
  if (!file) return;
  const terminal = vscode.window.createTerminal({ name: `agenthost ${before[0]}`, shellPath: program.path, shellArgs: [...before, path.dirname(file), ...after] });
  terminal.show();
}
