package provider

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"agenthost/internal/baseurl"
	"agenthost/pkg/spec"
)

// A vendor is a service of models, as data: its addresses and its variables.
type vendor struct {
	prefix string
	// title is the name of the service in errors and in the documentation.
	title string
	// base is the usual address, where {region} is the value of regionVariables. It is
	// empty for services that have an address for each customer, as in example.
	base, example   string
	regionVariables []string
	// baseVariables replace base. path is added to addresses without a path.
	baseVariables []string
	path          string
	// keyVariables hold the key, which is sent in keyHeader; the default is a bearer
	// token.
	keyVariables []string
	keyHeader    string
	// local marks a server that needs no key. Its usual address is this machine, which
	// counts as chosen by the app.
	local bool
	// keyless marks a proxy that adds the key.
	keyless bool
}

// A vendorEndpoint is the address and the key of a model of a vendor.
type vendorEndpoint struct {
	base, key setting
	// ownBase is set if the document or a variable chose the address: its server may need
	// no key.
	ownBase bool
	// problem is why there is no address.
	problem string
}

// resolveEndpoint chooses the address and the key. An address of the document gets only
// the document's key, and one of the app's .env no key of the host.
func (v *vendor) resolveEndpoint(vars variables, key, base string) vendorEndpoint {
	e := vendorEndpoint{base: setting{value: v.base}}
	switch own := vars.firstSet(v.baseVariables...); {
	case base != "":
		e.base, e.ownBase = setting{base, true}, v.base != ""
		e.key = setting{key, true}
	case own.value != "":
		e.base, e.ownBase = own, v.base != ""
		e.key = vars.chooseKey(key, own, v.keyVariables...)
	case v.base == "":
		e.problem = fmt.Sprintf("no address for %s: set %s, such as %s, or give the model a base_url under models: in app.yaml",
			v.title, v.baseVariables[0], v.example)
	default:
		e.base.ofApp = v.local
		e.key = vars.chooseKey(key, e.base, v.keyVariables...)
	}
	if e.problem == "" {
		e.base.value, e.problem = v.completeAddress(vars, e.base.value)
	}
	return e
}

// completeAddress inserts the region and adds the usual path.
func (v *vendor) completeAddress(vars variables, base string) (address, problem string) {
	if strings.Contains(base, "{region}") {
		region := vars.firstSet(v.regionVariables...).value
		if !location.MatchString(region) {
			return "", fmt.Sprintf("no region for %s: set %s, such as us-east-1, or give the model a base_url under models: in app.yaml",
				v.title, v.regionVariables[0])
		}
		return strings.ReplaceAll(base, "{region}", region), ""
	}
	base = baseurl.TrimPath(base, "")
	if u, err := url.Parse(base); err == nil && u.Path == "" {
		base = baseurl.Join(base, v.path)
	}
	return base, ""
}

// describeEndpoint returns the endpoint of a config with this key and address.
func (v *vendor) describeEndpoint(env Env, key spec.Secret, base spec.Text) Endpoint {
	e := v.resolveEndpoint(newVariables(env.Lookup, env.App), key.Reveal(), base.Value)
	return Endpoint{URL: e.base.value, At: base, OfHost: !e.base.ofApp && !e.key.ofApp, Account: accountOf(e.key.value)}
}

// missingKey returns why a call of the endpoint would have no key, or "".
func (v *vendor) missingKey(e vendorEndpoint) string {
	switch {
	case e.key.value != "" || v.local || v.keyless || e.ownBase || e.problem != "":
		return ""
	case e.base.ofApp:
		return fmt.Sprintf("no key for %s at the app's own address, which does not get the host's key: "+
			"give the model an api_key under models: in app.yaml, such as ${secret:%s}", v.title, v.keyVariables[0])
	}
	return fmt.Sprintf("no key for %s: set %s in the environment or in the app's .env, "+
		"or give the model an api_key or a base_url under models: in app.yaml", v.title, v.keyVariables[0])
}

// describeCredential describes the key of a model with a key and an address of the
// document.
func (v *vendor) describeCredential(env Env, key, base string) Credential {
	vars := newVariables(env.Lookup, env.App)
	e := v.resolveEndpoint(vars, key, base)
	switch missing := v.missingKey(e); {
	case e.problem != "":
		return Credential{Variable: cmp.Or(append(v.regionVariables, v.baseVariables...)...), Missing: e.problem}
	case missing != "":
		return Credential{Variable: v.keyVariables[0], Missing: missing}
	}
	return Credential{From: vars.sourceOf(key, e.key, v.keyVariables...)}
}
