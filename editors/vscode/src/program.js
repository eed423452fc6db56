'use strict';

const { spawn } = require('node:child_process');
const vscode = require('vscode');

// The most bytes that a command may print.
const maxOutput = 16 << 20;

// Program is the agenthost program, as the settings name it.
class Program {
  constructor(log) {
    this.log = log;
  }

  get settings() {
    return vscode.workspace.getConfiguration('agenthost');
  }

  get path() {
    return this.settings.get('path') || 'agenthost';
  }

  get args() {
    return this.settings.get('args') || [];
  }

  // folder is where relative paths in the settings begin.
  get folder() {
    return vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  }

  // run runs a command and returns its exit status and output. It fails only if the program cannot be
  // started or is canceled.
  run(args, token) {
    return new Promise((resolve, reject) => {
      const child = spawn(this.path, [...args, ...this.args], { cwd: this.folder });
      let stdout = '';
      let stderr = '';
      token?.onCancellationRequested(() => {
        child.kill();
        reject(new vscode.CancellationError());
      });
      child.stdout.setEncoding('utf8').on('data', (text) => {
        stdout += text;
        if (stdout.length > maxOutput) child.kill();
      });
      child.stderr.setEncoding('utf8').on('data', (text) => {
        stderr = (stderr + text).slice(-maxOutput);
      });
      child.on('error', (err) => {
        this.reportMissing(err);
        reject(err);
      });
      child.on('close', (status) => resolve({ status, stdout, stderr }));
    });
  }

  // runJSON runs a command that prints JSON. Without JSON it fails with what the command printed on
  // stderr.
  async runJSON(args, token) {
    const { status, stdout, stderr } = await this.run(args, token);
    try {
      return JSON.parse(stdout);
    } catch {
      throw new Error(stderr.trim() || `agenthost ${args[0]} ended with status ${status}`);
    }
  }

  // reportMissing reports that the program cannot be started, and offers the setting.
  async reportMissing(err) {
    this.log.appendLine(String(err));
    const open = 'Open Settings';
    const chosen = await vscode.window.showErrorMessage(
      `agenthost: ${this.path} cannot be started (${err.code || err.message}). Put the program on the PATH, or set agenthost.path to it.`, open);
    if (chosen === open) vscode.commands.executeCommand('workbench.action.openSettings', 'agenthost.path');
  }
}

exports.Program = Program;
