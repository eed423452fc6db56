package command

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/spf13/pflag"

	"agenthost/internal/policy"
	"agenthost/pkg/connection"
	"agenthost/pkg/loader"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
)

// LoadFlags control how apps are loaded.
type LoadFlags struct {
	overlay, policy, prices, interpreters string
	// Secrets is the folder with secrets, or empty.
	Secrets string
	// MaxLLMCalls is a flag only for serve.
	MaxLLMCalls int
	// Reserved lists what apps may not read or reach, even if the policy grants it.
	Reserved policy.Host
	// Observe belongs to the host that [LoadFlags.OpenHost] opens; it may be nil.
	Observe func(runtime.Measurement)
	// StoresNothing reports that [LoadFlags.OpenHost] opens a store that is only read.
	StoresNothing bool
	// Flags are the command's.
	Flags    *pflag.FlagSet
	env      Env
	consents runtime.ConsentFinisher
}

// SetConnections replaces the connection kind; consents are those of the host that
// [LoadFlags.OpenHost] opens.
func (f *LoadFlags) SetConnections(kind connection.Kind, consents runtime.ConsentFinisher) {
	f.env.Kinds.Connections, f.consents = kind, consents
}

// SetErrorOutput replaces the stream for problems and warnings.
func (f *LoadFlags) SetErrorOutput(w io.Writer) { f.env.Err = w }

// RegisterFlags adds the flags to a command's.
func (f *LoadFlags) RegisterFlags(env Env, flags *pflag.FlagSet) {
	flags.StringVar(&f.overlay, "env", "", "apply the overlay app.NAME.yaml to the app.yaml of every app that has one")
	f.env, f.Flags = env, flags
	flags.StringVar(&f.policy, "policy", "", "file that grants variables, secrets, addresses and programs to apps (default: the environment, and public and loopback addresses)")
	flags.StringVar(&f.interpreters, "interpreters", "", "folder with the WebAssembly interpreters for the code executor wasi")
	flags.StringVar(&f.prices, "prices", "", "file with model prices and context limits in the form of models.dev's api.json, for events, metrics, traces and warnings")
	flags.StringVar(&f.Secrets, "secrets", "", "folder with secrets: APP/NAME is a secret of one app, NAME a shared one (default: secrets are environment variables)")
}

// NewLoader returns a loader for a folder's single app.
func (f *LoadFlags) NewLoader(dir string) (*loader.Loader, error) {
	if err := CheckApp(dir); err != nil {
		return nil, err
	}
	opts, err := f.LoaderOptions(nil, dir)
	if err != nil {
		return nil, err
	}
	return f.env.NewLoader(opts), nil
}

// LoaderOptions applies the flags to options; nil means default options. It rejects an
// overlay name that no app uses; without folders it does not check the name.
func (f *LoadFlags) LoaderOptions(opts *loader.Options, dirs ...string) (*loader.Options, error) {
	if opts == nil {
		opts = &loader.Options{}
	}
	opts.Overlay, opts.Secrets, opts.Interpreters = f.overlay, f.Secrets, f.interpreters
	if err := f.applyPolicy(opts); err != nil {
		return nil, err
	}
	if f.prices != "" {
		prices, err := provider.ReadPriceList(f.prices)
		if err != nil {
			return nil, FailWithf("--prices: %w", err)
		}
		opts.Prices = prices
	}
	calls, err := f.defaultLLMCalls()
	if err != nil {
		return nil, err
	}
	opts.MaxLLMCalls = calls
	if f.Secrets != "" {
		if info, err := os.Stat(f.Secrets); err != nil || !info.IsDir() {
			return nil, FailWithf("--secrets %s: folder not found", f.Secrets)
		}
	}
	if f.interpreters != "" {
		if info, err := os.Stat(f.interpreters); err != nil || !info.IsDir() {
			return nil, FailWithf("--interpreters %s: folder not found", f.interpreters)
		}
	}
	if f.overlay == "" || len(dirs) == 0 {
		return opts, nil
	}
	if !overlayName.MatchString(f.overlay) {
		return nil, fmt.Errorf("--env must contain only letters, digits, _ and -, got %q", f.overlay)
	}
	for _, dir := range dirs {
		apps, err := loader.Discover(dir)
		if err != nil {
			return nil, FailWith(err)
		}
		for _, app := range apps {
			if _, err := os.Stat(filepath.Join(app, loader.OverlayFile(f.overlay))); err == nil {
				return opts, nil
			}
		}
	}
	return nil, FailWithf("--env %s: no app has a file %s", f.overlay, loader.OverlayFile(f.overlay))
}

// overlayName matches the names that are allowed in app.NAME.yaml.
var overlayName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// defaultLLMCalls returns max_llm_calls for apps without their own: the flag's, or else that from
// ADK's environment variable. Nil is the built-in default.
func (f *LoadFlags) defaultLLMCalls() (*int, error) {
	const variable = "ADK_MAX_LLM_CALLS"
	name, calls := "--max-llm-calls", f.MaxLLMCalls
	if !f.Flags.Changed("max-llm-calls") {
		text := os.Getenv(variable)
		if text == "" {
			return nil, nil
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%s must be a whole number, such as 500, got %q", variable, text)
		}
		name, calls = variable, n
	}
	if calls >= math.MaxInt32 {
		return nil, fmt.Errorf("%s must be less than %d, got %d; 0 means no limit", name, math.MaxInt32, calls)
	}
	return &calls, nil
}
