package wasi

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/tool"
)

// TestPython runs code in Python, which "make interpreters" installs; AGENTHOST_WASI_PYTHON is
// another module.
func TestPython(t *testing.T) {
	file := cmp.Or(os.Getenv("AGENTHOST_WASI_PYTHON"), "../../bin/interpreters/python-3.11.3.wasm")
	if _, err := os.Stat(file); err != nil {
		t.Skipf("%s not found: run make interpreters", filepath.Base(file))
	}
	i := openTestModule(t, file)
	if err := i.WaitUntilReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	execute := func(code string, timeout time.Duration) (*tool.ProgramResult, error) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		return i.RunProgram(ctx, &tool.ProgramRun{
			Args: []string{"python-3.11.3.wasm", "-I", "-"}, Stdin: []byte(code), MaxOutput: 64 << 10, Limits: tool.ProgramLimits{Memory: 64 << 20},
			Files: map[string][]byte{"data.csv": []byte("a,1\nb,2\n")}, Collect: []string{"*.csv"},
		})
	}
	for name, tt := range map[string]struct{ code, stdout, stderr string }{
		"standard library": {"import statistics, json, re, datetime, decimal, sqlite3, zlib\nprint(json.dumps(statistics.mean([1, 2])))", "1.5\n", ""},
		"files": {
			"import csv\nrows = list(csv.reader(open('data.csv')))\nwith open('out.csv', 'w') as f:\n    f.write(rows[1][0])\nprint(len(rows))",
			"2\n", "",
		},
		"environment":     {"import os\nprint(dict(os.environ), sorted(os.listdir('/')))", "{} ['data.csv', 'tmp']\n", ""},
		"host file":       {"open('/etc/passwd')", "", "FileNotFoundError"},
		"parent folder":   {"open('../../etc/passwd')", "", "PermissionError"},
		"link":            {"import os\nos.symlink('/etc', 'etc')", "", "OSError: [Errno 52] Function not implemented"},
		"socket":          {"import socket\nsocket.socket()", "", "OSError: [Errno 58] Not supported"},
		"process":         {"import subprocess\nsubprocess.run(['ls'])", "", "wasi does not support processes"},
		"memory":          {"x = []\nwhile True:\n    x.append(bytearray(1_000_000))", "", "MemoryError"},
		"bytes of files":  {"f = open('big', 'wb')\nwhile True:\n    f.write(b'x' * 1_000_000)", "", "the files exceed the limit of 64 MiB"},
		"number of files": {"for i in range(2000):\n    open(str(i), 'w')", "", "the files exceed the limit of 1000 files and folders"},
		"recursion":       {"def f(n):\n    return f(n + 1)\nf(0)", "", "RecursionError"},
		"exit":            {"import os\nprint('x', flush=True)\nos._exit(7)", "x\n", ""},
		"null characters": {"print('a\\0b')", "a\uFFFDb\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := execute(tt.code, time.Minute)
			if err != nil || got.Stdout != tt.stdout || !strings.Contains(got.Stderr, tt.stderr) || (got.Exit == 0) == (tt.stderr != "" || name == "exit") {
				t.Errorf("%+v, %v", got, err)
			}
			if name == "files" && (len(got.Files) != 1 || string(got.Files["out.csv"]) != "b") {
				t.Errorf("files: %q", got.Files)
			}
		})
	}
	for _, code := range []string{"while True: pass", "import sys\nsys.setrecursionlimit(10**9)\ndef f(n):\n    return f(n + 1)\nf(0)\nwhile True: pass", "while True: print('x' * 1000)"} {
		if got, err := execute(code, 200*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %+v, %v", code, got, err)
		}
	}
}
