package a2aserver_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"agenthost/internal/a2acard"
	"agenthost/internal/servertest"
	"agenthost/internal/testenv"
	"agenthost/wing/a2aserver"
)

// newCardKey returns a signer, and its public key in PEM.
func newCardKey(t *testing.T) (*a2acard.Signer, []byte) {
	t.Helper()
	private, public := testenv.NewKeyPair(t)
	signer, err := a2acard.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, public
}

// The public card has signatures, which the public key verifies, and which a changed card has not. a2a-go reads
// the card with them, also the scheme for tokens by its name in 1.0.
func TestSignedCard(t *testing.T) {
	signer, public := newCardKey(t)
	keys, err := a2acard.ParsePublicKeys(public)
	if err != nil {
		t.Fatal(err)
	}
	e, address := newReplica(t, "", &a2aserver.Options{Cards: signer, GRPC: true})
	for _, path := range []string{"/a2a/desk", "/a2a/desk/agents/writer"} {
		var cards [2]string
		for i := range cards {
			w := httptest.NewRecorder()
			e.Server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path+"/.well-known/agent-card.json", nil))
			cards[i] = w.Body.String()
		}
		if cards[0] != cards[1] {
			t.Error("the card has other signatures for each request")
		}
		if covered, err := a2acard.VerifyCard([]byte(cards[0]), keys); err != nil || string(covered) != cards[0] {
			t.Errorf("%s: %v\n%s", path, err, cards[0])
		}
		changed := strings.Replace(cards[0], `"name": "`, `"name": "x`, 1)
		if _, err := a2acard.VerifyCard([]byte(changed), keys); err == nil {
			t.Errorf("a changed card is verified: %s", changed)
		}
	}
	for name, parser := range map[string]agentcard.Parser{"1.0": nil, "0.3": a2av0.NewAgentCardParser()} {
		inner := &http.Transport{}
		resolver := agentcard.NewResolver(&http.Client{Transport: inner})
		resolver.CardParser = parser
		if parser == nil {
			resolver.CardParser = agentcard.DefaultResolver.CardParser
		}
		read, err := resolver.Resolve(t.Context(), address+"/a2a/desk")
		inner.CloseIdleConnections()
		if err != nil || len(read.Signatures) != 3 {
			t.Errorf("%s: %+v, %v", name, read, err)
			continue
		}
		if scheme, ok := read.SecuritySchemes["bearer"].(a2a.HTTPAuthSecurityScheme); !ok || scheme.Scheme != "Bearer" {
			t.Errorf("%s: the scheme: %+v", name, read.SecuritySchemes)
		}
	}
}

// The card for authenticated callers is signed over each transport of 1.0, and not over 0.3, whose clients read
// other fields.
func TestSignedExtendedCard(t *testing.T) {
	signer, public := newCardKey(t)
	keys, err := a2acard.ParsePublicKeys(public)
	if err != nil {
		t.Fatal(err)
	}
	e, address := newReplica(t, "", &a2aserver.Options{Cards: signer, GRPC: true})
	for _, by := range transports {
		text, err := readExtendedCard(t, e, address, by)
		if err != nil {
			t.Fatalf("%s: %v", by, err)
		}
		_, err = a2acard.VerifyCard(text, keys)
		if by.version != a2a.Version {
			if err == nil || err.Error() != "agent card has no signature" {
				t.Errorf("%s: %v", by, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", by, err, text)
		}
		changed := bytes.Replace(text, []byte("desk_writer"), []byte("desk_another"), 1)
		if _, err := a2acard.VerifyCard(changed, keys); err == nil || bytes.Equal(text, changed) {
			t.Errorf("%s: a changed card is verified: %s", by, changed)
		}
	}
}

// readExtendedCard returns the card as a client receives it, in JSON.
func readExtendedCard(t *testing.T, e *servertest.Env, address string, by transport) ([]byte, error) {
	if by == overGRPC {
		card, err := newStub(t, address, tokenU).GetExtendedAgentCard(t.Context(), &a2apb.GetExtendedAgentCardRequest{Tenant: "desk"})
		if err != nil {
			return nil, err
		}
		return protojson.Marshal(card)
	}
	card, err := newPeer(t, e, address+"/a2a/desk", tokenU, by).GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
	if err != nil {
		return nil, err
	}
	return json.Marshal(card)
}
