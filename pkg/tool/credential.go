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

// Credential returns the credential that the user provided for the config, the
// exchangedAuthCredential of the response, and whether there is one.
func (c *Call) Credential(authConfig map[string]any) (map[string]any, bool) {
	v, _ := c.State.Get(session.TempPrefix + credentialKey(authConfig))
	credential, ok := v.(map[string]any)
	return credential, ok
}

// credentialKey has the form of adk-python auth/auth_tool.py: the types of the
// scheme and of the credential, each with a digest.
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
