package loader_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// newSaveWatch returns a watch over one folder with one app.
func newSaveWatch(t *testing.T, dir string) (*loader.Watch, *runtime.Host) {
	t.Helper()
	host, err := runtime.InMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		host.Close()
		if err := host.Store().Close(); err != nil {
			t.Error(err)
		}
	})
	w := loader.NewWatch(loader.New(testenv.Kinds(), nil), host, []string{dir}, &loader.WatchOptions{Settle: time.Millisecond})
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w, host
}

const pause = "name: shop\nagent_class: SequentialAgent\n"

func writeShop(t *testing.T) (apps, shop string) {
	t.Helper()
	apps = t.TempDir()
	shop = filepath.Join(apps, "shop")
	if err := os.Mkdir(shop, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shop, "root_agent.yaml"), []byte(pause), 0o644); err != nil {
		t.Fatal(err)
	}
	return apps, shop
}

// TestSaveServes expects saved files to be serving when Save returns, also sub-agents
// in subfolders.
func TestSaveServes(t *testing.T) {
	apps, shop := writeShop(t)
	w, host := newSaveWatch(t, apps)
	before := host.App("shop").Revision()
	ds, err := w.Save(t.Context(), "shop", map[string][]byte{
		"root_agent.yaml":  []byte(pause + "sub_agents: [{config_path: ./parts/step.yaml}]\n"),
		"parts/step.yaml":  []byte("name: step\nagent_class: SequentialAgent\n"),
		"parts/spare.yaml": []byte("name: spare\n"),
	})
	if err != nil || ds.HasErrors() {
		t.Fatalf("Save = %v, %v", ds, err)
	}
	if app := host.App("shop"); app.Revision() == before || app.Agent("step") == nil {
		t.Errorf("serving revision %s with agents %v, want the saved one", app.Revision(), app.AgentNames())
	}
	left, err := filepath.Glob(filepath.Join(shop, "*", ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// TestSaveRejectsProblems expects nothing to be written if the app would have errors, including a
// new app's folder.
func TestSaveRejectsProblems(t *testing.T) {
	apps, shop := writeShop(t)
	w, _ := newSaveWatch(t, apps)
	bad := map[string][]byte{"root_agent.yaml": []byte("name: shop\nagent_class: SequentialAgent\nsub_agents: [{config_path: ./step.yaml}]\n")}
	for _, app := range []string{"shop", "fresh"} {
		ds, err := w.Save(t.Context(), app, bad)
		if err != nil || !ds.HasErrors() {
			t.Errorf("Save(%s) = %v, %v, want problems", app, ds, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(shop, "root_agent.yaml"))
	if err != nil || string(text) != pause {
		t.Errorf("root_agent.yaml = %q, %v, want it unchanged", text, err)
	}
	if _, err := os.Stat(filepath.Join(apps, "fresh")); err == nil {
		t.Error("the folder of the rejected app exists")
	}
}

func TestSaveRejectsNames(t *testing.T) {
	apps, shop := writeShop(t)
	w, _ := newSaveWatch(t, apps)
	if err := os.Symlink(t.TempDir(), filepath.Join(shop, "out")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ app, file, text, want string }{
		{"user", "a.yaml", "", `app name must be a letter followed by letters, digits, _ or -, and not user, got "user": invalid`},
		{"../shop", "a.yaml", "", `and not user, got "../shop"`},
		{"shop", "../a.yaml", "", `file name must be the path of a .yaml or .yml file within the app's folder, got "../a.yaml": invalid`},
		{"shop", "/a.yaml", "", `got "/a.yaml"`},
		{"shop", `a\b.yaml`, "", `got "a\\b.yaml"`},
		{"shop", "C:a.yaml", "", `got "C:a.yaml"`},
		{"shop", ".env", "", `got ".env"`},
		{"shop", "x/.hid/a.yaml", "", `got "x/.hid/a.yaml"`},
		{"shop", "run.py", "", `got "run.py"`},
		{"shop", "a.yaml", strings.Repeat(" ", 4<<20+1), `file a.yaml has 4194305 bytes, which exceeds the limit of 4194304: invalid`},
		{"shop", "out/a.yaml", "", `out must be a folder within the app's folder: invalid`},
		{"shop", "root_agent.yaml/a.yaml", "", `root_agent.yaml must be a folder within the app's folder`},
	} {
		_, err := w.Save(t.Context(), tc.app, map[string][]byte{tc.file: []byte(tc.text)})
		if !errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Save(%s, %s) = %v, want %q", tc.app, tc.file, err, tc.want)
		}
	}
}

// TestSaveWithoutAppsFolder expects an error for a new app if the host serves single
// apps.
func TestSaveWithoutAppsFolder(t *testing.T) {
	_, shop := writeShop(t)
	w, _ := newSaveWatch(t, shop)
	_, err := w.Save(t.Context(), "fresh", map[string][]byte{"root_agent.yaml": []byte(pause)})
	want := "cannot create app fresh: the host serves individual apps, not a folder of apps: invalid"
	if !errors.Is(err, session.ErrInvalid) || err.Error() != want {
		t.Errorf("Save = %v, want %s", err, want)
	}
	if _, err := w.Open("fresh"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Open = %v, want session.ErrNotFound", err)
	}
}
