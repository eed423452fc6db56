package gemini

import (
	"context"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// Options configure a Gemini model. The zero value reads the environment variables that Google's
// SDK reads.
type Options struct {
	// Lookup reads a host environment variable; nil is [os.LookupEnv].
	Lookup func(name string) (string, bool)
	// App holds the app's own variables, used if Lookup has none. An address in App never gets the
	// host's key or token.
	App map[string]string
	// APIKey overrides GOOGLE_API_KEY and GEMINI_API_KEY.
	APIKey string
	// BaseURL overrides GOOGLE_GEMINI_BASE_URL or GOOGLE_VERTEX_BASE_URL. Like an
	// address in App, it gets only APIKey, a key in App, or Token.
	BaseURL string
	// Token returns the bearer token for Vertex AI; nil means Google's application
	// default credentials.
	Token func(context.Context) (string, error)
	// Backend is gemini or vertex_ai; "" follows GOOGLE_GENAI_USE_VERTEXAI.
	Backend string
	// BaseVariable is the address variable, instead of the two above. The address is then required.
	BaseVariable string
	// APIVersion is the API version, such as v1; "" is the SDK's.
	APIVersion string
	// HTTP is the client; nil is [http.DefaultClient]. Redirects are errors.
	HTTP *http.Client
	// Timeouts limit how long the service may be silent.
	Timeouts provider.TimeoutOptions
	// Retry configures retries.
	Retry provider.RetryOptions
	// Clock decides when context caches expire; nil is [time.Now].
	Clock func() time.Time
	// Logger logs context cache failures; nil discards logs.
	Logger *slog.Logger
}

type gemini struct {
	name string
	opts Options

	mu     sync.Mutex
	client *genai.Client
}

func (g *gemini) Name() string { return g.name }

// MixesToolsAndSchema reports whether one request may have both tools and a response
// schema: Vertex AI supports it for Gemini 2 and newer (adk-python
// utils/output_schema_utils.py).
func (g *gemini) MixesToolsAndSchema() bool {
	return g.geminiAccess().usesVertex(g.newVariables()) && isGemini2(g.name)
}

// isGemini2 reports whether the model is Gemini 2 or newer, or has no version, such as
// gemini-flash-latest.
func isGemini2(name string) bool {
	version, ok := strings.CutPrefix(path.Base(name), "gemini-")
	return ok && !strings.HasPrefix(version, "1.")
}

// A geminiCall is one request in the SDK's types.
type geminiCall struct {
	client   *genai.Client
	model    string
	contents []*genai.Content
	config   *genai.GenerateContentConfig
	budget   *modelapi.AnswerBudget
}

var _ model.SchemaMixer = (*gemini)(nil)
