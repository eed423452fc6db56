package template

import "testing"

// TestTemplatesPrintAsInADK: templates print what ADK's implementations print where these agree,
// else what adk-python prints. The rows with a comment differ from adk-python or from
// ADK in another language.
func TestTemplatesPrintAsInADK(t *testing.T) {
	for _, tt := range []struct {
		name, template string
		state          map[string]any
		artifacts      map[string]string
		want, err      string
	}{
		{name: "state keys", template: "Guest {guest_name}, the shop is {shop_state}.", state: map[string]any{"guest_name": "Ana", "shop_state": "open"}, want: "Guest Ana, the shop is open."},
		{name: "an artifact", template: "Menu: {artifact.menu}", artifacts: map[string]string{"menu": "soup and bread"}, want: "Menu: soup and bread"},
		{name: "an optional key", template: "Table: {table?}", want: "Table: "},
		{name: "an unknown key fails", template: "Guest {unset}!", err: "Context variable not found: `unset`."},
		{name: "several kinds", template: "\n    Guest {guest_name},\n    Party: {party_size}.\n    Dish: {dish?}.\n    The menu lists: {artifact.menu}\n    Prices: {artifact.prices}\n    ", state: map[string]any{"guest_name": "Ana", "party_size": float64(30), "dish": "stew"}, artifacts: map[string]string{"menu": "soup and bread", "prices": "cheap"}, want: "\n    Guest Ana,\n    Party: 30.\n    Dish: stew.\n    The menu lists: soup and bread\n    Prices: cheap\n    "},
		{name: "other braces stay", template: "Look up { guestId }, {{visits  }, {  non-identifier-float}}, {'key1': 'value1'} and {{'key2': 'value2'}}.", state: map[string]any{"guestId": "1234567890", "visits": float64(30)}, want: "Look up 1234567890, 30, {  non-identifier-float}}, {'key1': 'value1'} and {{'key2': 'value2'}}."},
		{name: "an unknown artifact fails", template: "Menu: {artifact.lost}", artifacts: map[string]string{"menu": "soup and bread"}, err: "Artifact lost not found."},
		{name: "a name with a hyphen stays", template: "Guest {invalid-key}!", want: "Guest {invalid-key}!"},
		{name: "null is empty", template: "Rate: {rate}", state: map[string]any{"rate": nil}, want: "Rate: "},
		{name: "an unknown optional artifact is empty", template: "Wine list: {artifact.lost?}", artifacts: map[string]string{"menu": "soup and bread"}, want: "Wine list: "},
		{name: "an unknown optional artifact among others", template: "\nGuest {guest_name},\nParty: {party_size}.\nDish: {dish}.\nThe menu lists: {artifact.menu}\nPrices: {artifact.prices?}\n", state: map[string]any{"guest_name": "Ana", "party_size": float64(30), "dish": "stew"}, artifacts: map[string]string{"menu": "soup and bread"}, want: "\nGuest Ana,\nParty: 30.\nDish: stew.\nThe menu lists: soup and bread\nPrices: \n"},
		{name: "spaces in braces", template: "Waiter: {  name  }.", state: map[string]any{"name": "Ben"}, want: "Waiter: Ben."},
		{name: "an unknown key of a user fails", template: "Sign {user:name} at {app:id}.", err: "Context variable not found: `user:name`."},
		{name: "an artifact with a file extension", template: "Sources: {artifact.dishes.txt}.", artifacts: map[string]string{"dishes.txt": "ten dishes"}, want: "Sources: ten dishes."}, // the artifact's text; ADK for Java and Kotlin prints the JSON of its part
		{name: "an unknown artifact with a file extension fails", template: "Sources: {artifact.lost.txt}.", err: "Artifact lost.txt not found."},
		{name: "invalid names stay", template: "Keep: {not-a-name!}, {two:many:parts},  {? }, and {}.", want: "Keep: {not-a-name!}, {two:many:parts},  {? }, and {}."},
		{name: "an unknown prefix stays", template: "Order: {shop:order}.", want: "Order: {shop:order}."},
		{name: "empty and invalid names after a prefix stay", template: "Rates: {app:not-a-name} and {:value} and {app:}", want: "Rates: {app:not-a-name} and {:value} and {app:}"},
		{name: "an empty template", template: ""},
		{name: "no placeholders", template: "Serve soup.", want: "Serve soup."},
		{name: "an optional key in a sentence", template: "Guest {unset?}!", want: "Guest !"},
		{name: "a known optional artifact", template: "Read: {artifact.leaflet?}", artifacts: map[string]string{"leaflet": "page one"}, want: "Read: page one"}, // the artifact's text; ADK for Java and Kotlin prints the JSON of its part
		{name: "a key of the app and an artifact", template: "Guest {name}, on floor {app:version}. Bill: {artifact.bill}", state: map[string]any{"name": "Dan", "app:version": "2.0"}, artifacts: map[string]string{"bill": "12 coins"}, want: "Guest Dan, on floor 2.0. Bill: 12 coins"}, // the artifact's text; ADK for Java and Kotlin prints the JSON of its part
		{name: "a known optional key", template: "Course: {course?}", state: map[string]any{"course": "fish"}, want: "Course: fish"},
		{name: "a whole number", template: "{whole}", state: map[string]any{"whole": 2.0}, want: "2"},                                                      // values are JSON; Python prints 2.0
		{name: "an object", template: "{o}", state: map[string]any{"o": map[string]any{"a": float64(1), "b": []any{float64(2)}}}, want: `{"a":1,"b":[2]}`}, // values are JSON; Python prints a dict
		{name: "null", template: "[{nul}]", state: map[string]any{"n": float64(1), "nul": nil}, want: "[]"},
		{name: "an optional null", template: "[{nul?}]", state: map[string]any{"n": float64(1), "nul": nil}, want: "[]"},
		{name: "values are not rendered again", template: "{nest}", state: map[string]any{"n": float64(1), "s": "x", "nest": "{s}"}, want: "{s}"},
		{name: "a value in Unicode", template: "{uni}", state: map[string]any{"uni": "é✓"}, want: "é✓"},
		{name: "quotes stay", template: "{quote}", state: map[string]any{"quote": `a"b`}, want: `a"b`},
		{name: "a name that begins with an underscore", template: "{_u}", state: map[string]any{"_u": "under"}, want: "under"},
		{name: "a name in Unicode", template: "{été}", state: map[string]any{"été": "summer"}, want: "summer"},
		{name: "an optional key of a user", template: "{user:zz?}"},
		{name: "an unknown key of the app fails", template: "{app:zz}", err: "Context variable not found: `app:zz`."},
		{name: "a space before the question mark", template: "{s ?}", state: map[string]any{"s": "x"}, want: "{s ?}"},
		{name: "a space after the question mark", template: "{s? }", state: map[string]any{"s": "x"}, want: "x"},
		{name: "two question marks", template: "{s??}", state: map[string]any{"s": "x"}, want: "{s??}"},
		{name: "three braces", template: "{{{s}}}", state: map[string]any{"s": "x"}, want: "x"},
		{name: "an open brace", template: "{s", state: map[string]any{"s": "x"}, want: "{s"},
		{name: "a closing brace", template: "s}", want: "s}"},
		{name: "a placeholder in JSON", template: `{"a": {"b": "{s}"}}`, state: map[string]any{"s": "x"}, want: `{"a": {"b": "x"}}`},
		{name: "tabs in braces", template: "{\ts\t}", state: map[string]any{"s": "x"}, want: "x"},
		{name: "a dollar", template: "${s}", state: map[string]any{"s": "x"}, want: "${s}"}, // since ADK 2.10, ${key} stays
		{name: "a percent sign", template: "{% if s %}", state: map[string]any{"s": "x"}, want: "{% if s %}"},
		{name: "two prefixes", template: "{user:app:a}", state: map[string]any{"app:a": "A"}, want: "{user:app:a}"},
		{name: "a prefix without a name", template: "{user:}", want: "{user:}"},
		{name: "a space before the question mark of an artifact", template: "{artifact.f.txt ?}", artifacts: map[string]string{"f.txt": "FILE"}},
		{name: "an artifact of a user", template: "{artifact.user:prof.txt}", artifacts: map[string]string{"f.txt": "FILE", "user:prof.txt": "PROF"}, want: "PROF"},
		{name: "an artifact in a folder", template: "{artifact.dir/f.txt}", artifacts: map[string]string{"f.txt": "FILE", "dir/f.txt": "DIRFILE"}, want: "DIRFILE"},
		{name: "a prefix in upper case", template: "{Artifact.f.txt}", artifacts: map[string]string{"f.txt": "FILE"}, want: "{Artifact.f.txt}"},
		{name: "an optional key in two braces", template: "{{zz?}}"},
		{name: "two braces with spaces", template: "{{ s }}", state: map[string]any{"s": "x"}, want: "x"},
		{name: "a code block stays", template: "```json\n{\n  \"x\": 1\n}\n```", want: "```json\n{\n  \"x\": 1\n}\n```"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.template).Render(t.Context(), mapScope{state: tt.state, artifacts: tt.artifacts})
			text := ""
			if err != nil {
				got, text = "", err.Error()
			}
			if got != tt.want || text != tt.err {
				t.Errorf("Render(%q) = %q, %q, want %q, %q", tt.template, got, text, tt.want, tt.err)
			}
		})
	}
}
