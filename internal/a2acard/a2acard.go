// Package a2acard signs and verifies A2A 1.0's agent cards, as its specification's section 8.4 describes: a
// JSON Web Signature over the card in canonical JSON (RFC 8785). Servers and clients use it.
//
// The published SDKs read the section in three ways. A card has a signature for each way that gives other bytes, so
// that each of them verifies it:
//
//	served   the card as it is sent, also with fields that 1.0 does not define (a2a-go)
//	defined  the fields that 1.0 defines, without those at their default value (the specification)
//	pruned   defined, without anything empty (a2a-python, @a2a-js/sdk)
package a2acard

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/go-jose/go-jose/v4"
	"google.golang.org/protobuf/encoding/protojson"

	"agenthost/internal/limit"
)

// signaturesKey is the only key that no signature covers.
const signaturesKey = "signatures"

// A Signer signs cards. It is safe for concurrent use.
type Signer struct {
	signer jose.Signer
	mu     sync.Mutex
	// signed has cards' signatures by hash: cards are public, and signing them takes time.
	signed map[[sha256.Size]byte][]a2a.AgentCardSignature
}

// maxSigned limits the kept cards. Their addresses follow from the requests' hosts.
const maxSigned = 256

// SignCard returns a card in JSON with its signatures. It has none, and is indented by two spaces.
func (s *Signer) SignCard(card []byte) ([]byte, error) {
	all, err := s.ListSignatures(card)
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(all, "  ", "  ")
	if err != nil {
		return nil, err
	}
	body, ok := bytes.CutSuffix(bytes.TrimSpace(card), []byte("}"))
	if !ok {
		return nil, errNoObject
	}
	return slices.Concat(bytes.TrimSpace(body), []byte(",\n  \""+signaturesKey+"\": "), text, []byte("\n}")), nil
}

// ListSignatures returns a card's signatures, one for each reading; the card is in JSON. The caller must not change them.
func (s *Signer) ListSignatures(card []byte) ([]a2a.AgentCardSignature, error) {
	hash := sha256.Sum256(card)
	s.mu.Lock()
	all := s.signed[hash]
	s.mu.Unlock()
	if all != nil {
		return all, nil
	}
	all, err := s.signReadings(card)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.signed) >= maxSigned {
		clear(s.signed)
	}
	s.signed[hash] = all
	return all, nil
}

func (s *Signer) signReadings(card []byte) ([]a2a.AgentCardSignature, error) {
	readings, err := listReadings(card)
	if err != nil {
		return nil, err
	}
	var all []a2a.AgentCardSignature
	for _, r := range readings {
		signed, err := s.signer.Sign(r.payload)
		if err != nil {
			return nil, fmt.Errorf("signing the agent card: %w", err)
		}
		text, err := signed.CompactSerialize()
		if err != nil {
			return nil, fmt.Errorf("signing the agent card: %w", err)
		}
		parts := strings.Split(text, ".")
		all = append(all, a2a.AgentCardSignature{Protected: parts[0], Signature: parts[2]})
	}
	return all, nil
}

// A reading is a card as a signature may cover it.
type reading struct {
	payload []byte
	// covered is what the reading covers, as a card.
	covered []byte
}

// listReadings returns a card's readings whose bytes differ. With an error about fields that 1.0 defines it
// returns the served one.
func listReadings(card []byte) ([]reading, error) {
	served, err := decodeCard(card)
	if err != nil {
		return nil, err
	}
	delete(served, signaturesKey)
	payload, err := appendCanonical(nil, served)
	if err != nil {
		return nil, err
	}
	all := []reading{{payload, card}}
	defined, err := selectDefined(served)
	if err != nil {
		return all, err
	}
	covered, err := json.Marshal(convertScopes(defined, unwrapScopes))
	if err != nil {
		return all, err
	}
	for _, value := range []any{defined, pruneEmpty(defined)} {
		if payload, err = appendCanonical(nil, value); err != nil {
			return all, err
		}
		if !slices.ContainsFunc(all, func(r reading) bool { return bytes.Equal(r.payload, payload) }) {
			all = append(all, reading{payload, covered})
		}
	}
	return all, nil
}

var errNoObject = errors.New("agent card is not a JSON object")

func decodeCard(card []byte) (map[string]any, error) {
	if err := limit.AgentCard.CheckJSON(card); err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(card, &fields); err != nil {
		return nil, fmt.Errorf("agent card is not a JSON object: %w", err)
	}
	if fields == nil {
		return nil, errNoObject
	}
	return fields, nil
}

// selectDefined returns the fields that 1.0 defines, in ProtoJSON.
func selectDefined(served map[string]any) (map[string]any, error) {
	text, err := json.Marshal(convertScopes(served, wrapScopes))
	if err != nil {
		return nil, err
	}
	var card a2apb.AgentCard
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, &card); err != nil {
		return nil, fmt.Errorf("agent card is not one of A2A 1.0: %w", err)
	}
	if text, err = protojson.Marshal(&card); err != nil {
		return nil, err
	}
	return decodeCard(text)
}

// wrapScopes returns the ProtoJSON form for a list of scopes, {"list": [...]}; a2a-go writes it bare.
func wrapScopes(scopes any) any {
	if list, ok := scopes.([]any); ok {
		return map[string]any{"list": list}
	}
	return scopes
}

// unwrapScopes returns a2a-go's form.
func unwrapScopes(scopes any) any {
	if wrapped, ok := scopes.(map[string]any); ok {
		list, _ := wrapped["list"].([]any)
		return append([]any{}, list...)
	}
	return scopes
}

// convertScopes returns a copy whose lists of scopes are converted, on the card and its skills.
func convertScopes(value any, convert func(any) any) any {
	switch value := value.(type) {
	case []any:
		all := make([]any, len(value))
		for i, item := range value {
			all[i] = convertScopes(item, convert)
		}
		return all
	case map[string]any:
		all := maps.Clone(value)
		for _, key := range []string{"skills", "securityRequirements"} {
			if item, ok := all[key]; ok {
				all[key] = convertScopes(item, convert)
			}
		}
		if schemes, ok := all["schemes"].(map[string]any); ok {
			lists := map[string]any{}
			for name, scopes := range schemes {
				lists[name] = convert(scopes)
			}
			all["schemes"] = lists
		}
		return all
	}
	return value
}

// pruneEmpty returns a value without empty strings, lists and objects; nil if it is empty.
func pruneEmpty(value any) any {
	switch value := value.(type) {
	case string:
		if value == "" {
			return nil
		}
	case []any:
		var all []any
		for _, item := range value {
			if item = pruneEmpty(item); item != nil {
				all = append(all, item)
			}
		}
		if all == nil {
			return nil
		}
		return all
	case map[string]any:
		all := map[string]any{}
		for key, item := range value {
			if item = pruneEmpty(item); item != nil {
				all[key] = item
			}
		}
		if len(all) == 0 {
			return nil
		}
		return all
	}
	return value
}

// maxSignatures limits the signatures that are verified.
const maxSignatures = 16

// VerifyCard returns what a card's signatures by one of the keys cover, as a card: the card itself, or the fields
// that 1.0 defines.
func VerifyCard(card []byte, keys []jose.JSONWebKey) ([]byte, error) {
	fields, err := decodeCard(card)
	if err != nil {
		return nil, err
	}
	signatures, _ := fields[signaturesKey].([]any)
	switch {
	case len(signatures) == 0:
		return nil, errors.New("agent card has no signature")
	case len(signatures) > maxSignatures:
		return nil, fmt.Errorf("agent card exceeds the limit of %d signatures", maxSignatures)
	}
	readings, err := listReadings(card)
	if len(readings) == 0 {
		return nil, err
	}
	for _, r := range readings {
		for _, one := range signatures {
			if r.isSigned(one, keys) {
				return r.covered, nil
			}
		}
	}
	return nil, errors.New("agent card has no valid signature by the given keys")
}

// isSigned reports whether one of the keys has made a signature for the reading.
func (r *reading) isSigned(entry any, keys []jose.JSONWebKey) bool {
	fields, _ := entry.(map[string]any)
	header, _ := fields["protected"].(string)
	value, _ := fields["signature"].(string)
	text, err := jose.ParseSignedCompact(header+"."+base64.RawURLEncoding.EncodeToString(r.payload)+"."+value, algorithms)
	return err == nil && slices.ContainsFunc(keys, func(key jose.JSONWebKey) bool {
		_, err := text.Verify(key.Key)
		return err == nil
	})
}
