package main

import (
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakebucket"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// TestFilesApp runs the example app "files" on each kind of artifact store: a file in a message is
// stored under its name, read on request, and removed by a rewind, and the user's own file is part
// of the instruction.
func TestFilesApp(t *testing.T) {
	google := httptest.NewServer(&fakebucket.GCS{})
	defer google.Close()
	emulator := func(name string) (string, bool) { return google.URL, name == "STORAGE_EMULATOR_HOST" }
	for _, place := range []string{"memory:", "dir://" + t.TempDir(), "gs://box/files"} {
		t.Run(place[:2], func(t *testing.T) {
			env := testenv.New(t, &testenv.Options{Artifacts: place, Env: emulator, Loader: &loader.Options{Env: lookupEnv(nil)}})
			env.Load(t, filepath.Join(appsDir, "files"))
			key := env.Session(t, "files", "s", nil)
			expectAnswer := func(want string, parts ...*genai.Part) {
				t.Helper()
				if got := answerToParts(t, env, key, parts); got != want {
					t.Errorf("%s\nwant %s", got, want)
				}
			}
			expectAnswer("Send me a file called note.txt, and I will save it.", genai.NewPartFromText("read it"))
			file := &genai.Part{InlineData: &genai.Blob{DisplayName: "note.txt", MIMEType: "text/plain", Data: []byte("buy milk")}}
			expectAnswer("It is saved. Ask me to read note.txt.", genai.NewPartFromText("here: "), file)
			expectAnswer("I have read it. Artifact note.txt is: buy milk", genai.NewPartFromText("read it"))
			stored, err := env.Store.Artifacts.Load(t.Context(), key, "note.txt", 0)
			if diff := cmp.Diff(file, stored); err != nil || diff != "" {
				t.Errorf("stored file (-want +got): %v\n%s", err, diff)
			}
			rewindToFile(t, env, key)
			if _, err := env.Store.Artifacts.Load(t.Context(), key, "note.txt", -1); err == nil {
				t.Error("the file exists after the rewind")
			}
			if _, err := env.Store.Artifacts.Save(t.Context(), key, "user:style.txt", &genai.Part{Text: "in rhymes"}); err != nil {
				t.Fatal(err)
			}
			expectAnswer("Send me a file for the top of the pile.", genai.NewPartFromText("hello"))
		})
	}
}

// rewindToFile rewinds to before the invocation that stored the file.
func rewindToFile(t *testing.T, env *testenv.Env, key session.Key) {
	t.Helper()
	sess, err := env.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	req := &runtime.RewindRequest{App: key.App, UserID: key.User, SessionID: key.ID}
	for _, ev := range sess.Events() {
		if len(ev.Actions.ArtifactDelta) > 0 {
			req.BeforeInvocationID = ev.InvocationID
			break
		}
	}
	for _, err := range env.Host.Rewind(t.Context(), req) {
		t.Fatal(err)
	}
}

// answerToParts returns a turn's last answer.
func answerToParts(t *testing.T, env *testenv.Env, key session.Key, parts []*genai.Part) string {
	t.Helper()
	answer := ""
	req := &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Message: genai.NewContentFromParts(parts, genai.RoleUser)}
	for ev, err := range env.Host.Run(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		answer = model.TextOf(ev.Content)
	}
	return answer
}
