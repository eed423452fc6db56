package authorize

import (
	"fmt"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/connection"
	"agenthost/pkg/runtime"
)

// A Call is a pending call that waits until the user authorizes a connection.
type Call struct {
	*genai.FunctionCall
	// Connection is the connection's name.
	Connection string
	// callID is its tool call's ID.
	callID string
	// address is what the user opens; userCode, if set, is entered there.
	address, userCode string
	state             string
	device            bool
}

// NewCall returns nil for a call that does not wait for a connection.
func NewCall(call *genai.FunctionCall) *Call {
	config, _ := call.Args["authConfig"].(map[string]any)
	key, _ := config["credentialKey"].(string)
	if call.Name != runtime.RequestCredential || !connection.IsCredentialKey(key) {
		return nil
	}
	exchanged, _ := config["exchangedAuthCredential"].(map[string]any)
	asked, _ := exchanged["oauth2"].(map[string]any)
	c := &Call{FunctionCall: call, Connection: strings.TrimPrefix(key, connection.CredentialKey("")), device: connection.DeviceState(config) != ""}
	c.callID, _ = call.Args["functionCallId"].(string)
	c.address, _ = asked["authUri"].(string)
	c.state, _ = asked["state"].(string)
	c.userCode, _ = asked["userCode"].(string)
	return c
}

// DescribePending returns what the call waits for.
func (c *Call) DescribePending() string {
	return "connection " + c.Connection + " waits for your authorization"
}

// WrapError names the connection once.
func (c *Call) WrapError(err error) error {
	return fmt.Errorf("connection %s is not authorized: %s", c.Connection, strings.TrimPrefix(err.Error(), "connection "+c.Connection+": "))
}
