package evalweb

import (
	"encoding/json"
	"errors"
	"net/http"

	"agenthost/internal/jsonbody"
	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
)

// An evalBody is a request body with values from package eval.
type evalBody struct{ *jsonbody.Body }

func (s *handlers) readEvalBody(w http.ResponseWriter, r *http.Request) (evalBody, error) {
	b, err := s.ReadBody(w, r)
	return evalBody{b}, err
}

func (b evalBody) readStrings(name string) []string {
	f := b.FindField(name)
	if f == nil {
		return nil
	}
	var list []string
	if json.Unmarshal(f.Value, &list) != nil {
		b.AddDetail("list_type", "Input should be a valid list of strings", string(f.Key))
	}
	return list
}

func (b evalBody) readMeasures(name string) []*eval.Measure {
	f := b.FindField(name)
	if f == nil {
		return nil
	}
	var items []json.RawMessage
	if json.Unmarshal(f.Value, &items) != nil {
		b.AddDetail("list_type", "Input should be a valid list", string(f.Key))
	}
	measures := make([]*eval.Measure, len(items))
	for i, item := range items {
		measures[i] = &eval.Measure{}
		b.addEvalError(eval.Decode("", item, measures[i]), string(f.Key), i)
	}
	return measures
}

func (b evalBody) readLiveConfig(name string) *eval.LiveConfig {
	f := b.FindField(name)
	if f == nil || string(f.Value) == "null" {
		return nil
	}
	config := &eval.LiveConfig{}
	err := eval.Decode("", f.Value, config)
	if err == nil {
		err = config.CheckFields()
	}
	b.addEvalError(err, string(f.Key))
	return config
}

func (b evalBody) readSimulator(name string) *eval.SimulatorConfig {
	f := b.FindField(name)
	if f == nil {
		return nil
	}
	config := &eval.SimulatorConfig{}
	err := eval.Decode("", f.Value, config)
	if err == nil {
		err = config.CheckFields(false)
	}
	b.addEvalError(err, string(f.Key))
	return config
}

// addEvalError records an error from package eval about the value at the keys. Its message
// contains the path within the value; a position would refer to re-encoded text.
func (b evalBody) addEvalError(err error, keys ...any) {
	var ds spec.Diagnostics
	switch {
	case err == nil:
	case errors.As(err, &ds):
		for _, d := range ds {
			b.AddDetail("value_error", d.Message, keys...)
		}
	default:
		b.AddFieldError(err, keys...)
	}
}
