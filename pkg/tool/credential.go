package tool

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"agenthost/pkg/session"
)

// RequestCredential asks the user for a credential, and ends the turn: the tool
// returns (a nil result will do), and once the user has given it, the tool is
// run again with the same arguments and finds it with [Call.Credential]. The
// config is ADK's AuthConfig as JSON has it: authScheme, rawAuthCredential,
// exchangedAuthCredential and credentialKey, by which the credential is kept
// until the invocation ends. Without a key one is made of the rest.
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

// Credential is what the user gave for the config, the exchangedAuthCredential
// of the answer; false before it was given.
func (c *Call) Credential(authConfig map[string]any) (map[string]any, bool) {
	v, _ := c.State.Get(session.TempPrefix + credentialKey(authConfig))
	credential, ok := v.(map[string]any)
	return credential, ok
}

// credentialKey has the form of adk-python auth/auth_tool.py: what kind of
// scheme and of credential it is, each with a digest.
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
	// What JSON cannot say has no digest of its own, and no place in an event.
	raw, err := json.Marshal(v)
	if err != nil {
		return "none"
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
