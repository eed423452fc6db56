// The official Dev UI and ADK's API client from npm: unpacked once, without
// dependencies, and only if the checksum matches.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const PACKAGE = '@google/adk-devtools@2.0.0';
const SHA512 = '9q88zzLjSE5DQg+42JWBVZjEi4byuhKFod9T4jcgYj3IysulqDaEh+cObFe/54LJUI9RvpjFfAWxrC46BggYqQ==';
const here = import.meta.dirname;

// unpacked returns the folder of the package.
export function unpacked() {
  const folder = join(here, '.bundle');
  if (existsSync(join(folder, 'package.json'))) return folder;
  const work = join(here, '.bundle.new');
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work);
  const [{ filename }] = JSON.parse(execFileSync('npm', ['pack', PACKAGE, '--json', '--pack-destination', work], { encoding: 'utf8' }));
  const file = join(work, filename);
  const sum = createHash('sha512').update(readFileSync(file)).digest('base64');
  if (sum !== SHA512) throw new Error(`${PACKAGE} has the checksum ${sum}, want ${SHA512}`);
  execFileSync('tar', ['-xzf', file, '-C', work]);
  renameSync(join(work, 'package'), folder);
  rmSync(work, { recursive: true });
  return folder;
}

// devUI returns the folder for serve --ui-dir.
export const devUI = () => join(unpacked(), 'dist', 'browser');

// apiClient returns ADK's client of its API.
export const apiClient = async () => (await import(join(unpacked(), 'dist', 'esm', 'server', 'adk_api_client.js'))).AdkApiClient;
