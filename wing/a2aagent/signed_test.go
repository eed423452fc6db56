package a2aagent_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"agenthost/internal/a2acard"
	"agenthost/internal/policy"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
)

// newCardKey returns a signer, and its public key as the value of card_key.
func newCardKey(t *testing.T) (*a2acard.Signer, string) {
	t.Helper()
	private, public := testenv.NewKeyPair(t)
	signer, err := a2acard.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(string(public))
	if err != nil {
		t.Fatal(err)
	}
	return signer, string(text)
}

// With card_key the agent runs only if one of the keys has signed the card as it is.
func TestSignedCard(t *testing.T) {
	signer, public := newCardKey(t)
	_, other := newCardKey(t)
	s := serve(t, "JSON-RPC 1.0", false)
	plain, err := json.MarshalIndent(s.card, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.SignCard(plain)
	if err != nil {
		t.Fatal(err)
	}
	changed := []byte(strings.Replace(string(signed), `"description": "Answers."`, `"description": "Lies."`, 1))
	for _, tt := range []struct {
		name, key string
		card      []byte
		want      string
	}{
		{"a signed card", public, signed, ""},
		{"a changed card", public, changed, "agent card has no valid signature by the given keys"},
		{"another key", other, signed, "agent card has no valid signature by the given keys"},
		{"a card without a signature", public, plain, "agent card has no signature"},
		{"no key", "", changed, ""},
	} {
		path := "/" + strings.ReplaceAll(tt.name, " ", "-")
		s.Config.Handler.(*http.ServeMux).HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(tt.card) })
		more := ""
		if tt.key != "" {
			more = "card_key: " + tt.key + "\n"
		}
		got := newEnv(t, s.URL+path, more).send(t.Context(), model.UserText("hi"), false)
		if isError := strings.HasPrefix(got, "error "); isError != (tt.want != "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// The card may be a file of the app: then the agent calls its address, with its credential, and reads no card.
func TestCardFile(t *testing.T) {
	signer, public := newCardKey(t)
	s := serve(t, "JSON-RPC 1.0", false)
	plain, err := json.MarshalIndent(s.card, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.SignCard(plain)
	if err != nil {
		t.Fatal(err)
	}
	e := &env{Env: testenv.New(t, nil)}
	e.Host.Swap(e.Load(t, testenv.Files(t, "front", map[string][]byte{
		"root_agent.yaml": []byte("agent_class: RemoteA2aAgent\nname: front\nagent_card: ${file:cards/desk.json}\nauth: {bearer: t0p-s3cret-token}\ncard_key: " + public + "\n"),
		"cards/desk.json": signed,
	})))
	e.key = e.Session(t, "front", "s", nil)
	if got := e.send(t.Context(), model.UserText("hi"), false); strings.HasPrefix(got, "error ") {
		t.Errorf("an answer: %s", got)
	}
	if len(s.headers) != 1 || s.headers[0].Get("Authorization") != "Bearer t0p-s3cret-token" {
		t.Errorf("requests: %v", s.headers)
	}
}

// A card in the YAML that cannot be used is a problem when the app is loaded.
func TestCardFileProblems(t *testing.T) {
	_, public := newCardKey(t)
	const address = `"supportedInterfaces":[{"url":"%","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]`
	for card, want := range map[string]string{
		`{"name":`: "agent_card: it is not an agent card",
		`{}`:       "agent_card: the card has no address",
		"{" + strings.Replace(address, "%", "http://example.com/", 1) + "}":                            `agent_card: its address "http://example.com/" does not begin with https://`,
		"{" + strings.Replace(address, "%", "https://example.com/", 1) + `}` + "\ncard_key: " + public: "agent_card: agent card has no signature",
		`{"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}":                            "agent_card: agent card exceeds the nesting limit of 100",
		"cards/desk.json": "agent_card must be the address of an agent card",
		"{" + strings.Replace(address, "%", "https://169.254.169.254/", 1) + "}": "app front may not reach 169.254.169.254",
	} {
		card, more, _ := strings.Cut(card, "\n")
		text, err := json.Marshal(card)
		if err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{"root_agent.yaml": []byte("agent_class: RemoteA2aAgent\nname: front\nagent_card: " + string(text) + "\n" + more)}
		strict := loader.New(testenv.Kinds(), &loader.Options{Policy: (*policy.Policy)(nil).For(policy.Host{Shared: true})})
		_, problems := strict.Load(t.Context(), testenv.Files(t, "front", files))
		if err := problems.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", card, err, want)
		}
	}
}

// A key that cannot be used is a problem at its place.
func TestCardKeyProblems(t *testing.T) {
	files := map[string][]byte{"root_agent.yaml": []byte("agent_class: RemoteA2aAgent\nname: front\nagent_card: https://example.com/card\ncard_key: secret\n")}
	_, problems := testenv.New(t, nil).Loader.Load(t.Context(), testenv.Files(t, "front", files))
	if err := problems.Err(); err == nil || !strings.Contains(err.Error(), "root_agent.yaml:4:11") || !strings.Contains(err.Error(), "card_key: expected public keys in PEM") {
		t.Errorf("problems: %v", err)
	}
}
