package modelapi

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"agenthost/internal/baseurl"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// A Vendor is a model service, as data: its addresses and its variables.
type Vendor struct {
	Prefix string
	// Title is the service's name in errors and in the documentation.
	Title string
	// Base is the usual address, where {region} is the regionVariables' value. It is empty for
	// services that have an address for each customer, as in example.
	Base, Example   string
	RegionVariables []string
	// BaseVariables replace base. path is added to addresses without a path.
	BaseVariables []string
	Path          string
	// KeyVariables hold the key. It is sent in keyHeader; the default is a bearer token.
	KeyVariables []string
	KeyHeader    string
	// Local marks a server that needs no key. Its usual address is this machine and counts as
	// chosen by the app.
	Local bool
	// Keyless marks a proxy that adds the key.
	Keyless bool
}

// A VendorEndpoint is the address and the key for a vendor's model.
type VendorEndpoint struct {
	Base, Key Setting
	// ownBase is set if the document or a variable chose the address: its server may need
	// no key.
	ownBase bool
	// Problem is why there is no address.
	Problem string
}

// ResolveEndpoint chooses the address and the key. An address in the document gets only the key in
// the document, and one in the app's .env does not get the host key.
func (v *Vendor) ResolveEndpoint(vars Variables, key, base string) VendorEndpoint {
	e := VendorEndpoint{Base: Setting{Value: v.Base}}
	switch own := vars.FirstSet(v.BaseVariables...); {
	case base != "":
		e.Base, e.ownBase = Setting{base, true}, v.Base != ""
		e.Key = Setting{key, true}
	case own.Value != "":
		e.Base, e.ownBase = own, v.Base != ""
		e.Key = vars.ChooseKey(key, own, v.KeyVariables...)
	case v.Base == "":
		e.Problem = fmt.Sprintf("no address for %s: set %s, such as %s, or give the model a base_url under models: in app.yaml",
			v.Title, v.BaseVariables[0], v.Example)
	default:
		e.Base.OfApp = v.Local
		e.Key = vars.ChooseKey(key, e.Base, v.KeyVariables...)
	}
	if e.Problem == "" {
		e.Base.Value, e.Problem = v.completeAddress(vars, e.Base.Value)
	}
	return e
}

// completeAddress inserts the region and adds the usual path.
func (v *Vendor) completeAddress(vars Variables, base string) (address, problem string) {
	if strings.Contains(base, "{region}") {
		region := vars.FirstSet(v.RegionVariables...).Value
		if !location.MatchString(region) {
			return "", fmt.Sprintf("no region for %s: set %s, such as us-east-1, or give the model a base_url under models: in app.yaml",
				v.Title, v.RegionVariables[0])
		}
		return strings.ReplaceAll(base, "{region}", region), ""
	}
	base = baseurl.TrimPath(base, "")
	if u, err := url.Parse(base); err == nil && u.Path == "" {
		base = baseurl.Join(base, v.Path)
	}
	return base, ""
}

// DescribeEndpoint returns the endpoint for a config with this key and address.
func (v *Vendor) DescribeEndpoint(env provider.Env, key spec.Secret, base spec.Text) provider.Endpoint {
	e := v.ResolveEndpoint(NewVariables(env.Lookup, env.App), key.Reveal(), base.Value)
	return provider.Endpoint{URL: e.Base.Value, At: base, OfHost: !e.Base.OfApp && !e.Key.OfApp, Account: AccountOf(e.Key.Value)}
}

// MissingKey returns why a call to the endpoint would have no key, or "".
func (v *Vendor) MissingKey(e VendorEndpoint) string {
	switch {
	case e.Key.Value != "" || v.Local || v.Keyless || e.ownBase || e.Problem != "":
		return ""
	case e.Base.OfApp:
		return fmt.Sprintf("no key for %s at the app's own address, which does not get the host's key: "+
			"give the model an api_key under models: in app.yaml, such as ${secret:%s}", v.Title, v.KeyVariables[0])
	}
	return fmt.Sprintf("no key for %s: set %s in the environment or in the app's .env, "+
		"or give the model an api_key or a base_url under models: in app.yaml", v.Title, v.KeyVariables[0])
}

// DescribeCredential describes a model's key, from the key and the address in the document.
func (v *Vendor) DescribeCredential(env provider.Env, key, base string) provider.Credential {
	vars := NewVariables(env.Lookup, env.App)
	e := v.ResolveEndpoint(vars, key, base)
	switch missing := v.MissingKey(e); {
	case e.Problem != "":
		return provider.Credential{Variable: cmp.Or(append(v.RegionVariables, v.BaseVariables...)...), Missing: e.Problem}
	case missing != "":
		return provider.Credential{Variable: v.KeyVariables[0], Missing: missing}
	}
	return provider.Credential{From: vars.SourceOf(key, e.Key, v.KeyVariables...)}
}
