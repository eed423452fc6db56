package spec

import (
	"encoding/json"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// YAML tags of nodes.
const (
	strTag   = "!!str"
	intTag   = "!!int"
	floatTag = "!!float"
	boolTag  = "!!bool"
	nullTag  = "!!null"
	mapTag   = "!!map"
	seqTag   = "!!seq"

	timestampTag = "!!timestamp"
	mergeTag     = "!!merge"
)

// Any returns the node as plain Go values: map[string]any, []any, string, int64,
// float64, bool or nil. Integers that overflow int64 are json.Number; dates are strings.
func (n *Node) Any() any {
	switch n.Kind {
	case Mapping:
		m := make(map[string]any, len(n.Entries))
		for _, e := range n.Entries {
			m[e.Key.Value] = e.Value.Any()
		}
		return m
	case Sequence:
		s := make([]any, len(n.Items))
		for i, item := range n.Items {
			s[i] = item.Any()
		}
		return s
	}
	return n.scalarValue()
}

func (n *Node) scalarValue() any {
	switch n.Tag {
	case nullTag:
		return nil
	case boolTag:
		return strings.EqualFold(n.Value, "true")
	case intTag:
		return parseIntScalar(n.Value)
	case floatTag:
		f, _ := parseFloat(n.Value)
		return f
	}
	return n.Value
}

// resolveTag returns the tag of a plain scalar. It follows the YAML 1.1 of ADK's loader
// without dates and base 60: 0777 is octal, 1_000 is a number, 08 is a string. Only true
// and false are booleans; [Decode] also accepts yes and no.
func resolveTag(value string) string {
	tag := (&yaml.Node{Kind: yaml.ScalarNode, Value: value}).ShortTag()
	return adjustTag(tag, value)
}

func adjustTag(tag, value string) string {
	switch {
	case tag == timestampTag, tag == mergeTag:
		return strTag
	case tag == floatTag && isDigits(value):
		if hasLeadingZero(value) {
			return strTag
		}
		return intTag
	}
	return tag
}

// parseIntScalar parses a !!int to an int64, or to a json.Number on overflow.
func parseIntScalar(value string) any {
	plain := strings.ReplaceAll(value, "_", "")
	if i, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(plain, 0, 64); err == nil {
		return json.Number(strconv.FormatUint(u, 10))
	}
	return json.Number(strings.TrimPrefix(plain, "+"))
}

func parseFloat(value string) (float64, bool) {
	plain := strings.ToLower(strings.ReplaceAll(value, "_", ""))
	switch plain {
	case ".inf", "+.inf", "-.inf", ".nan":
		plain = strings.Replace(plain, ".", "", 1)
	}
	f, err := strconv.ParseFloat(plain, 64)
	return f, err == nil
}

func isDigits(value string) bool {
	digits := strings.TrimLeft(strings.ReplaceAll(value, "_", ""), "+-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

func hasLeadingZero(value string) bool {
	digits := strings.TrimLeft(value, "+-")
	return len(digits) > 1 && digits[0] == '0' && isDigits(digits)
}
