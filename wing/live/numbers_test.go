package live

import (
	"encoding/json"
	"testing"

	"agenthost/internal/number/numbertest"
)

// A response of a client in a live conversation keeps the digits of its numbers.
func TestDecodeNumbers(t *testing.T) {
	req, err := DecodeRequest([]byte(`{"content":{"role":"user","parts":[{"functionResponse":{"id":"c","name":"f","response":` + numbertest.Object + `}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(req.Content.Parts[0].FunctionResponse.Response)
	if err != nil {
		t.Fatal(err)
	}
	numbertest.Check(t, "response", string(text), 1)
}
