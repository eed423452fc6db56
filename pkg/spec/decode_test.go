package spec_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agenthost/pkg/spec"
)

type innerStruct struct {
	Codes []int `yaml:"codes"`
	Tries int   `yaml:"tries" default:"3"`
}

type inlinedFields struct {
	Timeout spec.Duration `yaml:"timeout" default:"5s"`
}

// shoutText has its own YAML form: a string, or a mapping with the key text.
type shoutText struct {
	Text string `yaml:"text" required:"true"`
}

func (s *shoutText) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Scalar {
		s.Text = n.Value + "!"
		return nil
	}
	return spec.Decode(n, s)
}

type toneName string

type allTypes struct {
	Text   string            `yaml:"text"`
	Bool   bool              `yaml:"bool"`
	Int    int               `yaml:"int"`
	Int8   int8              `yaml:"int8"`
	Uint16 uint16            `yaml:"uint16"`
	Float  float64           `yaml:"float"`
	Float4 float32           `yaml:"float4"`
	Ptr    *int              `yaml:"ptr"`
	Tone   toneName          `yaml:"tone" enum:"warm|dry" default:"warm"`
	Tones  []toneName        `yaml:"tones" enum:"warm|dry"`
	Texts  []string          `yaml:"texts"`
	Map    map[string]string `yaml:"map"`
	Deep   map[string][]*innerStruct
	Inner  innerStruct            `yaml:"inner"`
	Other  *innerStruct           `yaml:"other"`
	Many   map[string]innerStruct `yaml:"many"`
	Any    any                    `yaml:"any"`
	Node   *spec.Node             `yaml:"node"`
	Prompt spec.Text              `yaml:"prompt"`
	When   spec.Expr              `yaml:"when"`
	Wait   spec.Duration          `yaml:"wait"`
	Size   spec.Size              `yaml:"size"`
	Loud   shoutText              `yaml:"loud"`
	Louds  []shoutText            `yaml:"louds"`
	Bytes  []byte                 `yaml:"bytes"`
	Time   time.Time              `yaml:"time"`
	Old    string                 `yaml:"old" deprecated:"use text"`
	Go     time.Duration          `yaml:"go"`

	inlinedFields `yaml:"-"`
	Common        inlinedFields `yaml:",inline"`
}

func defaultAllTypes() allTypes {
	return allTypes{Tone: "warm", Inner: innerStruct{Tries: 3}, Common: inlinedFields{spec.Duration(5 * time.Second)}}
}

var compareDecoded = cmp.Options{
	cmpopts.IgnoreUnexported(spec.Text{}, spec.Node{}, allTypes{}),
	cmpopts.IgnoreFields(spec.Text{}, "Pos"),
}

func TestDecodeAllTypes(t *testing.T) {
	three := 3
	tests := []struct {
		in   string
		want func(*allTypes)
	}{
		{"{}", func(*allTypes) {}},
		{"", func(*allTypes) {}},
		{"text: ~\nptr:\ninner: null\nany: null", func(*allTypes) {}},
		{"text: hello", func(e *allTypes) { e.Text = "hello" }},
		{"text: yes", func(e *allTypes) { e.Text = "yes" }},
		{"text: 2026-01-02", func(e *allTypes) { e.Text = "2026-01-02" }},
		{"text: '12'", func(e *allTypes) { e.Text = "12" }},
		{"tone: DRY", func(e *allTypes) { e.Tone = "dry" }},
		{"tone: Tone.DRY", func(e *allTypes) { e.Tone = "dry" }},
		{"tone: voice.Tone.Dry", func(e *allTypes) { e.Tone = "dry" }},
		{"tone: voice.ToneDry", func(e *allTypes) { e.Tone = "dry" }},
		{"tones: [TONES_WARM, Tones.DRY]", func(e *allTypes) { e.Tones = []toneName{"warm", "dry"} }},
		{"bool: true", func(e *allTypes) { e.Bool = true }},
		{"bool: yes", func(e *allTypes) { e.Bool = true }},
		{"bool: On", func(e *allTypes) { e.Bool = true }},
		{"bool: off", func(e *allTypes) { e.Bool = false }},
		{"bool: 'yes'", func(e *allTypes) { e.Bool = true }},
		{"bool: 'TRUE'", func(e *allTypes) { e.Bool = true }},
		{"bool: T", func(e *allTypes) { e.Bool = true }},
		{"bool: 1", func(e *allTypes) { e.Bool = true }},
		{"bool: 1.0", func(e *allTypes) { e.Bool = true }},
		{"bool: '0'", func(e *allTypes) { e.Bool = false }},
		{"int: 0x10", func(e *allTypes) { e.Int = 16 }},
		{"int: 1e3", func(e *allTypes) { e.Int = 1000 }},
		{"int: 2.0", func(e *allTypes) { e.Int = 2 }},
		{"int: '1'", func(e *allTypes) { e.Int = 1 }},
		{"int: '2.0'", func(e *allTypes) { e.Int = 2 }},
		{"int: ' +1_000 '", func(e *allTypes) { e.Int = 1000 }},
		{"int: '-012'", func(e *allTypes) { e.Int = -12 }},
		{"int: 08", func(e *allTypes) { e.Int = 8 }},
		{"int: '00'", func(e *allTypes) { e.Int = 0 }},
		{"int: '9007199254740993'", func(e *allTypes) { e.Int = 9007199254740993 }},
		{"uint16: '7'", func(e *allTypes) { e.Uint16 = 7 }},
		{"float: '0.7'", func(e *allTypes) { e.Float = 0.7 }},
		{"float: '-1e-3'", func(e *allTypes) { e.Float = -0.001 }},
		{"float: '.5'", func(e *allTypes) { e.Float = 0.5 }},
		{"float4: '2'", func(e *allTypes) { e.Float4 = 2 }},
		{"ptr: '3'", func(e *allTypes) { e.Ptr = &three }},
		{"int8: -128", func(e *allTypes) { e.Int8 = -128 }},
		{"uint16: 65535", func(e *allTypes) { e.Uint16 = 65535 }},
		{"float: 1", func(e *allTypes) { e.Float = 1 }},
		{"float: 0x10", func(e *allTypes) { e.Float = 16 }},
		{"float: 36893488147419103232", func(e *allTypes) { e.Float = 1 << 65 }},
		{"float4: 0.5", func(e *allTypes) { e.Float4 = 0.5 }},
		{"ptr: 3", func(e *allTypes) { e.Ptr = &three }},
		{"tone: dry", func(e *allTypes) { e.Tone = "dry" }},
		{"tones: [dry, warm]", func(e *allTypes) { e.Tones = []toneName{"dry", "warm"} }},
		{"texts: [a, 'b']", func(e *allTypes) { e.Texts = []string{"a", "b"} }},
		{"texts: []", func(e *allTypes) { e.Texts = []string{} }},
		{"map: {a: x, 1: y}", func(e *allTypes) { e.Map = map[string]string{"a": "x", "1": "y"} }},
		{"inner: {codes: [429]}", func(e *allTypes) { e.Inner = innerStruct{[]int{429}, 3} }},
		{"other: {}", func(e *allTypes) { e.Other = &innerStruct{Tries: 3} }},
		{"many: {a: {tries: 1}, b: }", func(e *allTypes) { e.Many = map[string]innerStruct{"a": {nil, 1}, "b": {nil, 3}} }},
		{"any: {a: [1, ~]}", func(e *allTypes) { e.Any = map[string]any{"a": []any{int64(1), nil}} }},
		{"prompt: hi {x}", func(e *allTypes) { e.Prompt.Value = "hi {x}" }},
		{"prompt: 1.50", func(e *allTypes) { e.Prompt.Value = "1.50" }},
		{"when: true", func(e *allTypes) { e.When.Value = "true" }},
		{"wait: 1h30m", func(e *allTypes) { e.Wait = spec.Duration(90 * time.Minute) }},
		{"size: 4KiB", func(e *allTypes) { e.Size = 4096 }},
		{"timeout: 1s", func(e *allTypes) { e.Common.Timeout = spec.Duration(time.Second) }},
		{"loud: hi", func(e *allTypes) { e.Loud.Text = "hi!" }},
		{"loud: {text: hi}", func(e *allTypes) { e.Loud.Text = "hi" }},
		{"louds: [a, {text: b}]", func(e *allTypes) { e.Louds = []shoutText{{"a!"}, {"b"}} }},
		{"bytes: aGk=", func(e *allTypes) { e.Bytes = []byte("hi") }},
		{"bytes: -_8", func(e *allTypes) { e.Bytes = []byte{0xfb, 0xff} }},
		{"bytes: +/8=", func(e *allTypes) { e.Bytes = []byte{0xfb, 0xff} }},
		{"time: 2026-01-02T03:04:05Z", func(e *allTypes) { e.Time = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }},
		{"go: 2s", func(e *allTypes) { e.Go = 2 * time.Second }},
		{"go: '1500'", func(e *allTypes) { e.Go = 1500 * time.Millisecond }},
		{"go: 1500", func(e *allTypes) { e.Go = 1500 * time.Millisecond }},
	}
	for _, test := range tests {
		t.Run(test.in, func(t *testing.T) {
			var got allTypes
			want := defaultAllTypes()
			test.want(&want)
			if ds := spec.Decode(parseValid(t, test.in), &got); ds != nil {
				t.Fatalf("Decode(%q) = %v", test.in, ds)
			}
			if diff := cmp.Diff(want, got, compareDecoded); diff != "" {
				t.Errorf("Decode(%q) (-want +got):\n%s", test.in, diff)
			}
		})
	}
}

func TestDecode_Problems(t *testing.T) {
	tests := []struct{ in, want string }{
		{"txt: a", `1:1: unknown field "txt" [unknown-field]`},
		{"[a]", `1:1: expected a mapping, got a list [type]`},
		{"hello", `1:1: expected a mapping, got a string [type]`},
		{"text: 1", `1:7: expected a string, got an integer [type]`},
		{"text: 1.5", `1:7: expected a string, got a number [type]`},
		{"text: true", `1:7: expected a string, got a boolean [type]`},
		{"text: [a]", `1:7: expected a string, got a list [type]`},
		{"text: {a: b}", `1:7: expected a string, got a mapping [type]`},
		{"texts: [~]", `1:9: expected a string, got null [type]`},
		{"texts: a", `1:8: expected a list, got a string [type]`},
		{"map: [a]", `1:6: expected a mapping, got a list [type]`},
		{"map: {a: 1}", `1:10: expected a string, got an integer [type]`},
		{"bool: 2", `1:7: expected true or false, got an integer [type]`},
		{"bool: ' yes'", `1:7: expected true or false, got a string [type]`},
		{"bool: ''", `1:7: expected true or false, got a string [type]`},
		{"bool: [true]", `1:7: expected true or false, got a list [type]`},
		{"int: abc", `1:6: expected an integer, got a string [type]`},
		{"int: ''", `1:6: expected an integer, got a string [type]`},
		{"int: '1.5'", `1:6: expected an integer, got a string [type]`},
		{"int: '0x10'", `1:6: expected an integer, got a string [type]`},
		{"int: '1 2'", `1:6: expected an integer, got a string [type]`},
		{"int: '-'", `1:6: expected an integer, got a string [type]`},
		{"int: true", `1:6: warning: true is read as the number 1 [type]`},
		{"int8: '300'", `1:7: must be between -128 and 127, got 300 [limit]`},
		{"float: 'nan'", `1:8: expected a number, got a string [type]`},
		{"float: '1e999'", `1:8: 1e999 is too large [limit]`},
		{"int: 1.5", `1:6: expected an integer, got a number [type]`},
		{"int: {}", `1:6: expected an integer, got a mapping [type]`},
		{"int: 99999999999999999999", `1:6: must be between -9223372036854775808 and 9223372036854775807, got 99999999999999999999 [limit]`},
		{"int8: 128", `1:7: must be between -128 and 127, got 128 [limit]`},
		{"uint16: -1", `1:9: must be between 0 and 65535, got -1 [limit]`},
		{"float: abc", `1:8: expected a number, got a string [type]`},
		{"float4: 1e300", `1:9: 1e300 is too large [limit]`},
		{"tone: wrm", `1:7: "wrm" is not one of: warm, dry [enum]`},
		{"tone: Tone.WRM", `1:7: "Tone.WRM" is not one of: warm, dry [enum]`},
		{"tone: very dry", `1:7: "very dry" is not one of: warm, dry [enum]`},
		{"tone: 'so. dry'", `1:7: "so. dry" is not one of: warm, dry [enum]`},
		{"tones: [dry, cold]", `1:14: "cold" is not one of: warm, dry [enum]`},
		{"inner: {codes: [a]}", `1:17: expected an integer, got a string [type]`},
		{"inner: {cods: []}", `1:9: unknown field "cods" [unknown-field]`},
		{"prompt: [a]", `1:9: expected a string, got a list [type]`},
		{"when: {}", `1:7: expected a string, got a mapping [type]`},
		{"wait: soon", `1:7: expected a duration, got a string [type]`},
		{"wait: 30", `1:7: expected a duration, got an integer [type]`},
		{"size: big", `1:7: expected a size, got a string [type]`},
		{"loud: {}", `1:7: missing field "text" [required]`},
		{"louds: [{txt: a, text: b}]", `1:10: unknown field "txt" [unknown-field]`},
		{"bytes: '*'", `1:8: expected base64, got a string [type]`},
		{"time: noon", `1:7: cannot parse "noon" [value]`},
		{"time: [noon]", `1:7: expected a string, got a list [type]`},
		{"go: -1s", `1:5: expected a duration, got a string [type]`},
		{"old: x", `1:1: warning: field "old" is deprecated: use text [deprecated]`},
	}
	for _, test := range tests {
		var v allTypes
		got := problemLines(spec.Decode(parseValid(t, test.in), &v))
		if diff := cmp.Diff([]string{"f.yaml:" + test.want}, got); diff != "" {
			t.Errorf("Decode(%q) (-want +got):\n%s", test.in, diff)
		}
	}
}

// Decode reports all problems in order and decodes the valid fields.
func TestDecode_AllAtOnce(t *testing.T) {
	type agent struct {
		Name  string   `yaml:"name" required:"true"`
		Model string   `yaml:"model"`
		Tools []string `yaml:"tools"`
		Mode  string   `yaml:"mode" enum:"default|none" default:"default"`
		Steps int      `yaml:"steps"`
	}
	src := `instrction: hi
modle: x
tools:
  - 1
  - a
mode: nome
steps: many
`
	var a agent
	ds := spec.Decode(parseValid(t, src), &a)
	want := `f.yaml:1:1: missing field "name" [required]
  | instrction: hi
  | ^
f.yaml:1:1: unknown field "instrction" [unknown-field]
  | instrction: hi
  | ^
hint: valid fields: name, model, tools, mode, steps
f.yaml:2:1: unknown field "modle" [unknown-field]
  | modle: x
  | ^
hint: did you mean "model"?
f.yaml:4:5: expected a string, got an integer [type]
  |   - 1
  |     ^
hint: put it in quotes: "1"
f.yaml:6:7: "nome" is not one of: default, none [enum]
  | mode: nome
  |       ^
hint: did you mean "none"?
f.yaml:7:8: expected an integer, got a string [type]
  | steps: many
  |        ^
`
	if diff := cmp.Diff(want, formatText(t, ds)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(agent{Tools: []string{"", "a"}}, a); diff != "" {
		t.Errorf("decoded value (-want +got):\n%s", diff)
	}
}

// Decode keeps values that the caller set before.
func TestDecode_PresetValues(t *testing.T) {
	v := innerStruct{Codes: []int{1}, Tries: 7}
	if ds := spec.Decode(parseValid(t, "{}"), &v); ds != nil {
		t.Fatalf("Decode = %v", ds)
	}
	if diff := cmp.Diff(innerStruct{[]int{1}, 7}, v); diff != "" {
		t.Errorf("Decode({}) (-want +got):\n%s", diff)
	}
}

func TestDecode_SliceAndNode(t *testing.T) {
	var list []innerStruct
	if ds := spec.Decode(parseValid(t, "[{tries: 1}]"), &list); ds != nil || len(list) != 1 || list[0].Tries != 1 {
		t.Errorf("Decode into a slice = %v, %v", list, ds)
	}
	var node *spec.Node
	if ds := spec.Decode(parseValid(t, "[a]"), &node); ds != nil || len(node.Items) != 1 {
		t.Errorf("Decode into a node = %v, %v", node, ds)
	}
}

func TestDecode_NilNode(t *testing.T) {
	var g greetingConfig
	ds := spec.Decode(parseValid(t, "{}").Get("absent"), &g)
	if diff := cmp.Diff([]string{`missing field "name" [required]`}, problemLines(ds)); diff != "" {
		t.Errorf("Decode(nil) (-want +got):\n%s", diff)
	}
}

func TestDurationUnits(t *testing.T) {
	tests := []struct {
		in   string
		want time.Duration
		ok   bool
	}{
		{"30s", 30 * time.Second, true},
		{"5m", 5 * time.Minute, true},
		{"1h30m", 90 * time.Minute, true},
		{"30d", 720 * time.Hour, true},
		{"1d12h", 36 * time.Hour, true},
		{"0.5d", 12 * time.Hour, true},
		{"250ms", 250 * time.Millisecond, true},
		{"0", 0, true},
		{"'1s'", time.Second, true},
		{"-5s", 0, false},
		{"-1d", 0, false},
		{"5", 0, false},
		{"5 s", 0, false},
		{"d", 0, false},
		{"1d1d", 0, false},
		{"NaNd", 0, false},
		{"Infd", 0, false},
		{"200000d", 0, false},
		{"[1s]", 0, false},
		{"1w", 0, false},
	}
	for _, test := range tests {
		var v struct {
			D spec.Duration `yaml:"d"`
		}
		ds := spec.Decode(parseValid(t, "d: "+test.in), &v)
		if got := time.Duration(v.D); got != test.want || (ds == nil) != test.ok {
			t.Errorf("duration %q = %v, %v, want %v", test.in, got, ds, test.want)
		}
	}
	if got, want := spec.Duration(90*time.Second).String(), "1m30s"; got != want {
		t.Errorf("String() = %s, want %s", got, want)
	}
}

func TestSizeUnits(t *testing.T) {
	tests := []struct {
		in   string
		want spec.Size
		ok   bool
	}{
		{"10MiB", 10 << 20, true},
		{"4KiB", 4 << 10, true},
		{"1.5GiB", 3 << 29, true},
		{"2 MB", 2_000_000, true},
		{"500kB", 500_000, true},
		{"12B", 12, true},
		{"4096", 4096, true},
		{"0", 0, true},
		{"-1", 0, false},
		{"MiB", 0, false},
		{"1.2.3MB", 0, false},
		{"4 potatoes", 0, false},
		{"99999999999GiB", 0, false},
		{"[1]", 0, false},
	}
	for _, test := range tests {
		var v struct {
			S spec.Size `yaml:"s"`
		}
		ds := spec.Decode(parseValid(t, "s: "+test.in), &v)
		if v.S != test.want || (ds == nil) != test.ok {
			t.Errorf("size %q = %v, %v, want %v", test.in, v.S, ds, test.want)
		}
	}
}

type greetingConfig struct {
	Name string `yaml:"name" required:"true" doc:"Name of the person."`
}

// greetingKinds is a sample extension point: a kind builds a greeting that starts with
// env.
func greetingKinds() spec.Kinds[string, string] {
	return spec.Kinds[string, string]{
		spec.NewKind("greet", "Greets a person.", func(_ context.Context, env string, c *greetingConfig) (string, error) {
			return env + " " + c.Name, nil
		}),
		spec.NewKind("loud", "Has its own form.", func(_ context.Context, _ string, c *shoutText) (string, error) {
			return "", errors.New("too loud: " + c.Text)
		}),
	}
}

func TestKindsFoundByName(t *testing.T) {
	if diff := cmp.Diff([]string{"greet", "loud"}, greetingKinds().Names()); diff != "" {
		t.Errorf("Names() (-want +got):\n%s", diff)
	}
	if _, ok := greetingKinds().Lookup("shout"); ok {
		t.Error("Lookup(shout) found a kind")
	}
	greet, ok := greetingKinds().Lookup("greet")
	if !ok || greet.ConfigType() != reflect.TypeFor[greetingConfig]() {
		t.Fatalf("Lookup(greet) = %v, %v", greet.ConfigType(), ok)
	}
	plan, ds := greet.Decode(parseValid(t, "name: Ann"))
	if ds != nil {
		t.Fatalf("Decode = %v", ds)
	}
	for range 2 {
		if got, err := plan.Build(t.Context(), "hello"); got != "hello Ann" || err != nil {
			t.Errorf("Build() = %q, %v", got, err)
		}
	}
	want := "### greet\n\nGreets a person.\n\n| field | type | default | description |\n| --- | --- | --- | --- |\n" +
		"| `name` | string, required |  | Name of the person. |\n"
	if diff := cmp.Diff(want, greet.Reference()); diff != "" {
		t.Errorf("Reference() (-want +got):\n%s", diff)
	}
}

func TestKind_Problems(t *testing.T) {
	greet, _ := greetingKinds().Lookup("greet")
	if _, ds := greet.Decode(parseValid(t, "{}")); len(ds) != 1 || ds[0].Rule != "required" {
		t.Errorf("Decode({}) = %v, want the missing name", ds)
	}
	loud, _ := greetingKinds().Lookup("loud")
	plan, ds := loud.Decode(parseValid(t, "hi"))
	if ds != nil {
		t.Fatalf("Decode(hi) = %v", ds)
	}
	if _, err := plan.Build(t.Context(), ""); err == nil || err.Error() != "too loud: hi!" {
		t.Errorf("Build() = %v, want the error of the builder", err)
	}
}

// Structs that read one mapping in part have a common type, with each field once, and each reads
// its own keys.
func TestJoinTypes(t *testing.T) {
	type one struct {
		Name string `yaml:"name" required:"true"`
		Size int    `yaml:"size" default:"3"`
	}
	type two struct {
		Size  int    `yaml:"size" default:"4"`
		Color string `yaml:"color" alias:"colour" enum:"red|blue"`
	}
	joined := spec.JoinTypes(reflect.TypeFor[one](), reflect.TypeFor[two]())
	var names []string
	for _, f := range spec.Fields(joined) {
		names = append(names, f.Name+" "+f.Default)
		if f.Required {
			t.Errorf("%s is required", f.Name)
		}
	}
	if diff := cmp.Diff([]string{"name ", "size 3", "color "}, names); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	n, ds := spec.Parse("x.yaml", []byte("{colour: green, size: 5, weight: 1}"))
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	if got, want := len(spec.Decode(n, reflect.New(joined).Interface())), 2; got != want {
		t.Errorf("%d problems, want %d: of the color and the weight", got, want)
	}
	if diff := cmp.Diff([]string{"size"}, spec.SelectFields(n, reflect.TypeFor[one]()).Keys()); diff != "" {
		t.Errorf("keys of one (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"colour", "size"}, spec.SelectFields(n, reflect.TypeFor[two]()).Keys()); diff != "" {
		t.Errorf("keys of two (-want +got):\n%s", diff)
	}
}
