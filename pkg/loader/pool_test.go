package loader

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// doors is a kind of tool that opens and closes, and keeps a diary of both.
type doors struct {
	mu    sync.Mutex
	diary []string
}

type doorConfig struct {
	Name string `yaml:"name" required:"true" doc:"Which door."`
}

type door struct {
	tool.Set
	close func()
}

// Close closes the door.
func (d door) Close() error { d.close(); return nil }

func (d *doors) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.diary = append(d.diary, fmt.Sprintf(format, args...))
}

// wrote is the diary since the last time.
func (d *doors) wrote() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	said := strings.Join(d.diary, ", ")
	d.diary = nil
	return said
}

func (d *doors) kind() spec.Kind[tool.Env, tool.Set] {
	return spec.NewKind("door", "A door.", func(_ context.Context, _ tool.Env, c *doorConfig) (tool.Set, error) {
		if c.Name == "stuck" {
			return nil, fmt.Errorf("door %s does not open", c.Name)
		}
		d.note("open %s", c.Name)
		t, err := tool.FromFunc(c.Name, "A door.", func(context.Context, *tool.Call, struct{}) (string, error) { return "", nil })
		return door{tool.One(t), func() { d.note("close %s", c.Name) }}, err
	})
}

// TestPool: what is asked for in the same words stays open across a reload, what
// is new opens before the swap, and what nobody has any more closes after the
// last run.
func TestPool(t *testing.T) {
	d := &doors{}
	s := newStage(t)
	host := runtime.NewHost(nil, nil)
	l := New(nil)
	l.toolKinds = append(slices.Clone(l.toolKinds), d.kind())
	s.watch = NewWatch(l, host, []string{s.top}, &WatchOptions{Clock: s.clock})
	for _, step := range []struct{ does, file, diary string }{
		{"two doors, one of them twice", "tools: [{door: {name: front}}, {door: {name: back}}]\nsub_agents: [{name: b, model: m, instruction: x, tools: [{door: {name: back}}]}]", "open front, open back"},
		{"another text, and the tools in another place", "description: d\n\ntools:\n  - door:\n      name: back # the same\n  - {door: {name: front}}", ""},
		{"one door for another", "tools: [{door: {name: back}}, {door: {name: side}}]", "open side, close front"},
		{"a door that does not open", "tools: [{door: {name: new}}, {door: {name: stuck}}]", "open new, close new"},
		{"no door", "", "close back, close side"},
	} {
		s.put("x/root_agent.yaml", "name: a\nmodel: m\ninstruction: "+step.does+"\n"+step.file)
		s.put("x/app.yaml", "models: {m: {provider: scripted, script: s.yaml}}")
		s.put("x/s.yaml", "- text: hi")
		s.must(s.watch.Sync(t.Context()))
		got := strings.Split(d.wrote(), ", ")
		slices.Sort(got)
		want := strings.Split(step.diary, ", ")
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the doors did %q, want %q", step.does, got, want)
		}
	}
	if n := len(l.pool.sets); n != 0 {
		t.Errorf("%d sets are left in the pool", n)
	}
}
