package loader_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
)

// agents is how many agents the benchmarks load.
const agents = 1000

// helperYAML returns one agent's file.
func helperYAML(i int, instruction string) string {
	return fmt.Sprintf(`name: helper_%d
description: Helps with part %[1]d.
instruction: |
  %[2]s
  You help {user:name?} with part %[1]d of {topic?}.
output_key: part_%[1]d
tools:
  - expr: {name: note, description: Keeps a note., params: {text: string}, value: '{"kept": args.text}', set: {note_%[1]d: args.text}}
before_model_callbacks:
  - {when: 'state.stop_%[1]d == true', respond: Stopped.}
`, i, instruction)
}

// agentsPerDesk is how many agents each intermediate agent has.
const agentsPerDesk = 40

// writeApps distributes the agents over the apps, one file for each agent, and returns
// a function from agents to files.
func writeApps(b *testing.B, top string, apps int) func(i int) string {
	file := func(i int) string {
		return filepath.Join(top, fmt.Sprintf("app_%d", i%apps), fmt.Sprintf("h_%d.yaml", i))
	}
	for app := range apps {
		root := "name: root\ninstruction: Ask the right one.\nsub_agents:\n"
		for n, i := 0, app; i < agents; n, i = n+1, i+apps {
			write(b, file(i), helperYAML(i, "Be kind."))
			if n%agentsPerDesk == 0 {
				root += fmt.Sprintf("  - name: desk_%d\n    instruction: Ask one.\n    sub_agents:\n", n/agentsPerDesk)
			}
			root += fmt.Sprintf("      - config_path: h_%d.yaml\n", i)
		}
		write(b, filepath.Join(top, fmt.Sprintf("app_%d", app), "root_agent.yaml"), root)
	}
	return file
}

// BenchmarkReload measures what a change to one file among 1000 agents in 1, 100 or 1000 apps
// costs: full is a host's start, quiet a poll without changes, one-file a poll with one change.
// cpu-ms is the process's CPU time, because wall time varies on a busy machine.
func BenchmarkReload(b *testing.B) {
	for _, apps := range []int{1, 100, agents} {
		top := b.TempDir()
		file := writeApps(b, top, apps)
		host := runtime.NewHost(nil, nil)
		measure := func(name string, prepare func(b *testing.B) func()) {
			b.Run(fmt.Sprintf("%d-apps/%s", apps, name), func(b *testing.B) {
				op := prepare(b)
				b.ReportAllocs()
				before := cpuTime(b)
				for b.Loop() {
					op()
				}
				b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			})
		}
		sync := func(b *testing.B, w *loader.Watch) {
			if err := w.Sync(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		watch := func() *loader.Watch {
			return loader.NewWatch(loader.New(testenv.Kinds(), nil), host, []string{top}, nil)
		}
		measure("full", func(b *testing.B) func() { return func() { sync(b, watch()) } })
		measure("quiet", func(b *testing.B) func() {
			w := watch()
			sync(b, w)
			return func() { sync(b, w) }
		})
		measure("one-file", func(b *testing.B) func() {
			w, n := watch(), 0
			sync(b, w)
			return func() {
				n++
				write(b, file(7), helperYAML(7, fmt.Sprintf("Rule %d.", n)))
				sync(b, w)
			}
		})
	}
}

// cpuTime returns the process's CPU time.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReloadOpenAPI measures the reload of an app with 50 tools from an OpenAPI document, and
// the same without tools. The change to its instruction moves the tools by a line.
func BenchmarkReloadOpenAPI(b *testing.B) {
	var paths strings.Builder
	for i := range 50 {
		fmt.Fprintf(&paths, `  /items/%d/{id}:
    post:
      operationId: changeItem%[1]d
      summary: Changes an item of the kind %[1]d.
      parameters: [{name: id, in: path, required: true, schema: {type: string, maxLength: 64}}]
      requestBody:
        content:
          application/json:
            schema:
              type: object
              required: [name]
              properties:
                name: {type: string, maxLength: 200, description: The name.}
                tags: {type: array, items: {type: string}}
                price: {type: object, properties: {amount: {type: number, minimum: 0}, currency: {type: string, enum: [EUR, USD]}}}
`, i)
	}
	document := "openapi: 3.1.0\ninfo: {title: Items, version: '1'}\nservers: [{url: https://api.example.com}]\npaths:\n" + paths.String()
	const tools = "tools:\n  - openapi: {spec: items.openapi.yaml, confirm: tool.method != \"GET\"}\n"
	for name, yaml := range map[string]string{"without": "", "with": tools} {
		b.Run(name, func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "app")
			write(b, filepath.Join(dir, "items.openapi.yaml"), document)
			n := 0
			change := func() {
				n++
				write(b, filepath.Join(dir, "root_agent.yaml"), fmt.Sprintf("name: a\ninstruction: |\n%s  Rule %d.\n%s", strings.Repeat("  Be kind.\n", n%5), n, yaml))
			}
			change()
			host := runtime.NewHost(nil, nil)
			w := loader.NewWatch(loader.New(testenv.Kinds(), nil), host, []string{dir}, nil)
			sync := func() {
				if err := w.Sync(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			sync()
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				change()
				sync()
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			if host.App("app") == nil {
				b.Fatal("the app is not loaded")
			}
		})
	}
}
