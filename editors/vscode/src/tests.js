'use strict';

const path = require('node:path');
const vscode = require('vscode');

const testFiles = '**/*.test.yaml';

// Tests shows the tests in *.test.yaml files in the test explorer and runs them. A test's ID is its app
// folder and its name: names are unique in an app.
class Tests {
  constructor(program) {
    this.program = program;
    this.controller = vscode.tests.createTestController('agenthost', 'agenthost');
    this.controller.refreshHandler = () => this.discoverAll();
    this.controller.createRunProfile('Run', vscode.TestRunProfileKind.Run, (request, token) => this.run(request, token), true);
    const watcher = vscode.workspace.createFileSystemWatcher(testFiles);
    const changed = (uri) => this.discover(path.dirname(uri.fsPath));
    watcher.onDidCreate(changed);
    watcher.onDidChange(changed);
    watcher.onDidDelete(changed);
    this.parts = [this.controller, watcher];
  }

  dispose() {
    this.parts.forEach((part) => part.dispose());
  }

  async discoverAll() {
    const files = await vscode.workspace.findFiles(testFiles);
    const dirs = new Set(files.map((uri) => path.dirname(uri.fsPath)));
    await Promise.all([...dirs].map((dir) => this.discover(dir)));
  }

  // discover lists an app's tests. While a file has errors, the tests stay as they were last listed.
  async discover(dir) {
    let listed;
    try {
      listed = await this.program.runJSON(['test', '--list', '--output', 'json', dir]);
    } catch (err) {
      this.program.log.appendLine(`${dir}: ${err.message}`);
      return;
    }
    if (listed.problems.some((p) => p.severity === 'error')) return;
    if (listed.tests.length === 0) {
      this.controller.items.delete(dir);
      return;
    }
    const app = this.controller.createTestItem(dir, listed.tests[0].app, vscode.Uri.file(dir));
    for (const t of listed.tests) {
      const item = this.controller.createTestItem(`${dir}\n${t.name}`, t.name, this.uriOf(t.file));
      item.range = new vscode.Range(t.line - 1, 0, t.line - 1, 0);
      app.children.add(item);
    }
    this.controller.items.add(app);
  }

  uriOf(file) {
    return vscode.Uri.file(path.isAbsolute(file) ? file : path.join(this.program.folder, file));
  }

  // runNamed runs one test, as its code lens does.
  async runNamed(dir, name) {
    if (!this.find(dir, name)) await this.discover(dir);
    const item = this.find(dir, name);
    if (!item) throw new Error(`agenthost: ${name} is not listed: save the file, and fix its errors`);
    await this.run(new vscode.TestRunRequest([item]), new vscode.CancellationTokenSource().token);
  }

  find(dir, name) {
    return this.controller.items.get(dir)?.children.get(`${dir}\n${name}`);
  }

  async run(request, token) {
    await vscode.workspace.saveAll(false); // the program reads files
    const run = this.controller.createTestRun(request);
    const chosen = new Map(); // by app item, its tests
    const roots = request.include ?? [...this.controller.items].map(([, item]) => item);
    for (const item of roots) {
      const app = item.parent ?? item;
      const tests = item.parent ? [item] : [...item.children].map(([, child]) => child);
      chosen.set(app, [...(chosen.get(app) ?? []), ...tests.filter((t) => !request.exclude?.includes(t))]);
    }
    try {
      for (const [app, tests] of chosen) await this.runApp(run, app, tests, token);
    } finally {
      run.end();
    }
  }

  // runApp runs some of an app's tests by their names.
  async runApp(run, app, tests, token) {
    tests.forEach((t) => run.started(t));
    const names = tests.map((t) => t.label.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|');
    let report;
    try {
      report = await this.program.runJSON(['test', '--output', 'json', '--run', `^(${names})$`, app.id], token);
    } catch (err) {
      if (!token.isCancellationRequested) tests.forEach((t) => run.errored(t, new vscode.TestMessage(err.message)));
      return;
    }
    for (const t of tests) {
      const result = report.tests.find((r) => r.name === t.label);
      if (!result) {
        const problems = report.problems.map((p) => `${p.file}:${p.line}:${p.column}: ${p.message}`);
        run.errored(t, new vscode.TestMessage(problems.join('\n') || 'The test is no longer in its file.'));
        continue;
      }
      run.appendOutput(result.transcript.join('\r\n') + '\r\n', undefined, t);
      if (result.passed) {
        run.passed(t, result.seconds * 1000);
        continue;
      }
      run.failed(t, result.failures.map((f) => this.messageOf(f)), result.seconds * 1000);
    }
  }

  messageOf(failure) {
    const values = Object.entries(failure.values ?? {}).map(([part, value]) => `  ${part} = ${JSON.stringify(value)}`);
    const message = new vscode.TestMessage([failure.message, ...values].join('\n'));
    if (failure.file) {
      message.location = new vscode.Location(this.uriOf(failure.file), new vscode.Position(Math.max(0, failure.line - 1), Math.max(0, failure.column - 1)));
    }
    return message;
  }
}

exports.Tests = Tests;
