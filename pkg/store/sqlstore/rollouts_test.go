package sqlstore

import (
	"testing"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A save whose response was lost succeeds, and has counted once.
func TestRolloutLostResponse(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		p, url := startProxy(t, url)
		s := openStore(t, url, nil)
		for lost := range int64(7) {
			r := &store.Rollout{App: string(rune('a' + lost))}
			for range 2 {
				p.deaf.Store(lost + 1)
				mustSucceed(t, "saving a rollout", s.Rollouts.Save(t.Context(), r))
			}
			p.deaf.Store(0)
			got, err := s.Rollouts.Get(t.Context(), r.App)
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "version", int64(2), got.Version)
		}
	})
}

// Rollouts come over byte for byte, once. An app's own rollout stays.
func TestImportRollouts(t *testing.T) {
	source := sqliteFile(t)
	from := openStore(t, source, nil)
	for _, app := range []string{"app", "busy"} {
		r := &store.Rollout{App: app, Data: []byte{'a', 0, 255}}
		mustSucceed(t, "saving a rollout", from.Rollouts.Save(t.Context(), r))
		mustSucceed(t, "saving a rollout", from.Rollouts.Save(t.Context(), r))
	}
	eachDatabase(t, func(t *testing.T, url string) {
		host, i := openStore(t, url, nil), openImporter(t, url)
		mustSucceed(t, "saving a rollout", host.Rollouts.Save(t.Context(), &store.Rollout{App: "busy", Data: []byte("mine")}))
		for _, first := range []bool{true, false} {
			r, err := allEngines().OpenReadOnly(t.Context(), source)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			mustSucceed(t, "reading rollouts", r.Rollouts(t.Context(), func(o PackedRollout) error {
				got, err := i.Rollout(t.Context(), o)
				diff(t, "written "+o.App, first && o.App == "app", got)
				return err
			}))
		}
		for app, want := range map[string]string{"app": "a\x00\xff", "busy": "mine"} {
			got, err := host.Rollouts.Get(t.Context(), app)
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "data", want, string(got.Data))
		}
		imported := &store.Rollout{App: "app", Version: 2}
		mustSucceed(t, "saving an imported rollout", host.Rollouts.Save(t.Context(), imported))
		wantErr(t, "saving it again", host.Rollouts.Save(t.Context(), &store.Rollout{App: "app", Version: 2}), session.ErrStale, "now it is at 3")
	})
}
