package tool

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"agenthost/pkg/session"
)

// RequestConfirmation asks a person to confirm the call, and ends the turn: the
// tool returns (a nil result is fine), and after approval it runs again with
// the same arguments and the response in Confirmation. A rejected call does not
// run again. The hint is shown to the person; an empty hint means the default.
// The payload, which may be nil, is what the person may edit.
func (c *Call) RequestConfirmation(hint string, payload any) {
	if hint == "" {
		hint = DefaultConfirmationHint(c.Name)
	}
	if c.Actions.RequestedToolConfirmations == nil {
		c.Actions.RequestedToolConfirmations = map[string]*session.Confirmation{}
	}
	c.Actions.RequestedToolConfirmations[c.ID] = &session.Confirmation{Hint: hint, Payload: session.Normalize(payload)}
	c.Actions.SkipSummarization = true
}

// DefaultConfirmationHint is the hint for a call whose tool provides none
// (adk-python tools/function_tool.py).
func DefaultConfirmationHint(name string) string {
	return fmt.Sprintf("Please approve or reject the tool call %s() by responding with a FunctionResponse "+
		"with an expected ToolConfirmation payload.", name)
}

// RequestCredential asks the user for a credential, and ends the turn: the tool
// returns (a nil result is fine), and once the user has provided it, the tool
// runs again with the same arguments and finds it with [Call.Credential]. The
// config is ADK's AuthConfig as JSON: authScheme, rawAuthCredential,
// exchangedAuthCredential and credentialKey, under which the credential is
// stored until the invocation ends. Without a key, one is derived from the
// rest.
func (c *Call) RequestCredential(authConfig map[string]any) {
	asked, _ := session.Normalize(authConfig).(map[string]any)
	if asked == nil {
		asked = map[string]any{}
	}
	asked["credentialKey"] = credentialKey(authConfig)
	if c.Actions.RequestedAuthConfigs == nil {
		c.Actions.RequestedAuthConfigs = map[string]any{}
	}
	c.Actions.RequestedAuthConfigs[c.ID] = asked
	c.Actions.SkipSummarization = true
}

// Credential returns the credential that the user provided for the config, the response's
// exchangedAuthCredential, and whether there is one.
func (c *Call) Credential(authConfig map[string]any) (map[string]any, bool) {
	v, _ := c.State.Get(session.TempPrefix + credentialKey(authConfig))
	credential, ok := v.(map[string]any)
	return credential, ok
}

// credentialKey has the form that adk-python auth/auth_tool.py uses: the scheme's and the
// credential's type, each with a digest.
func credentialKey(authConfig map[string]any) string {
	if key, ok := authConfig["credentialKey"].(string); ok && key != "" {
		return key
	}
	scheme, raw := authConfig["authScheme"], authConfig["rawAuthCredential"]
	return fmt.Sprintf("adk_%s_%s_%s_%s", stringMember(scheme, "type"), digestJSON(scheme), stringMember(raw, "authType"), digestJSON(raw))
}

func stringMember(v any, key string) string {
	s, _ := asMap(v)[key].(string)
	return cmp.Or(s, "none")
}

func digestJSON(v any) string {
	// A value that JSON cannot encode cannot be in an event either.
	raw, err := json.Marshal(v)
	if err != nil {
		return "none"
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
