package command

import (
	"net/url"
	"os"

	"github.com/spf13/pflag"

	"agenthost/internal/policy"
	"agenthost/pkg/loader"
)

// applyPolicy sets the loader options' policy: the policy file, if there is one, combined with what
// the host reserves.
func (f *LoadFlags) applyPolicy(opts *loader.Options) error {
	var p *policy.Policy
	if f.policy != "" {
		n, ds, err := ReadDocument("--policy", f.policy)
		if err != nil {
			return err
		}
		if !ds.HasErrors() {
			p, ds = policy.Decode(n)
		}
		if err := ProblemsError("--policy", f.policy, ds); err != nil {
			return err
		}
	}
	f.Reserved.Values = append(f.Reserved.Values, secretFlags(f.Flags)...)
	opts.Policy = p.For(f.Reserved)
	return nil
}

// secretFlags returns flag values that contain a password, such as database URLs.
func secretFlags(flags *pflag.FlagSet) []string {
	var values []string
	if flags == nil {
		return nil
	}
	flags.VisitAll(func(f *pflag.Flag) { values = append(values, passwordsIn(f.Value.String())...) })
	for _, name := range []string{"AGENTHOST_SESSION_DB", "AGENTHOST_ARTIFACTS", "AGENTHOST_MEMORY", "AGENTHOST_REVISIONS"} { // for verbs without these flags
		values = append(values, passwordsIn(os.Getenv(name))...)
	}
	return values
}

// passwordsIn returns a URL with a password, and the password; nothing for other values.
func passwordsIn(address string) (secrets []string) {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	password, _ := u.User.Password()
	for _, secret := range []string{password, u.Query().Get("password"), u.Query().Get("sslpassword")} {
		if secret != "" {
			secrets = append(secrets, address, secret)
		}
	}
	return secrets
}
