package number

import (
	"bytes"
	"encoding/json"
)

// DecodeObject decodes a JSON object as encoding/json does, with a json.Number for each
// number that a float64 would round. The fakes of services read requests by it.
func DecodeObject(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	convertNumbers(m)
	return m, nil
}

// convertNumbers converts numbers to float64 in place, if that keeps their digits.
func convertNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := ToFloat(v); err == nil {
			return f
		}
	case []any:
		for i, item := range v {
			v[i] = convertNumbers(item)
		}
	case map[string]any:
		for key, item := range v {
			v[key] = convertNumbers(item)
		}
	}
	return v
}
