package runtime_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

// TestLogging: the plugin logging logs a run's steps, and contents only if enabled.
func TestLogging(t *testing.T) {
	for _, tt := range []struct{ name, settings, want string }{
		{"plain", "logging", `INFO user message
INFO agent started
INFO model call started
INFO model responded
INFO event
INFO tool call started
WARN tool call failed
INFO event
INFO model call started
INFO model responded
INFO event
INFO agent ended
INFO run ended`},
		{"contents", "{logging: {level: debug, contents: true}}", `DEBUG user message secret
DEBUG agent started
DEBUG model call started
DEBUG model responded
DEBUG event
DEBUG tool call started {"n":7}
WARN tool call failed
DEBUG event
DEBUG model call started
DEBUG model responded all secret
DEBUG event
DEBUG agent ended
DEBUG run ended`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			e := testenv.New(t, &testenv.Options{Loader: &loader.Options{Logger: logger}})
			e.Load(t, testenv.Files(t, "app", map[string][]byte{
				"root_agent.yaml":  []byte("name: a\nmodel: demo\ninstruction: x\ntools:\n  - expr: {name: pick, params: {n: integer}, value: \"[1][args.n]\"}\n"),
				"app.yaml":         []byte("models: {demo: {provider: scripted, script: demo.script.yaml}}\nplugins: [" + tt.settings + "]\n"),
				"demo.script.yaml": []byte("- when: step == 0\n  calls: [{name: pick, args: {n: 7}}]\n- text: \"all {user}\"\n"),
			}))
			formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "secret")))
			if diff := cmp.Diff(tt.want, formatLog(log.String())); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

// formatLog returns each line's level, message and content.
func formatLog(log string) string {
	line := regexp.MustCompile(`level=(\w+) msg="?([\w ]+?)"? app=.*?(?: content=(.*))?$`)
	var out []string
	for l := range strings.Lines(log) {
		m := line.FindStringSubmatch(strings.TrimSpace(l))
		if m == nil {
			out = append(out, l)
			continue
		}
		content := strings.ReplaceAll(strings.Trim(m[3], `"`), `\"`, `"`)
		out = append(out, strings.TrimSpace(m[1]+" "+m[2]+" "+content))
	}
	return strings.Join(out, "\n")
}
