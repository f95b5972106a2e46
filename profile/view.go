package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/google/pprof/driver"
	pprof "github.com/google/pprof/profile"

	"ipcbench/phase"
)

// WriteFlame writes pprof's flame graph of p as one HTML page that needs nothing
// else: processes at the root, then phases, then functions.
func WriteFlame(w io.Writer, p *Profile) error {
	page, err := flame(p)
	if err != nil {
		return fmt.Errorf("profile: flame graph: %w", err)
	}
	_, err = w.Write(page)
	return err
}

// flame asks pprof's own web interface for the page. pprof has no other way to
// export it.
func flame(p *Profile) ([]byte, error) {
	var page []byte
	err := present(p, func(args *driver.HTTPServerArgs) error {
		handler := args.Handlers["/flamegraph"]
		if handler == nil {
			return errors.New("this pprof has none")
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/flamegraph", nil))
		if w.Code != http.StatusOK {
			return fmt.Errorf("%s: %s", http.StatusText(w.Code), strings.TrimSpace(w.Body.String()))
		}
		page = w.Body.Bytes()
		return nil
	})
	if err != nil {
		return nil, err
	}
	// The bar at the top has links to pprof's other pages, which are not there: the
	// title takes its place.
	title := html.EscapeString(p.Title())
	for _, change := range []struct{ old, new string }{
		{"</head>", "<style>" + pageStyle + "</style></head>"},
		{`<h1><a href="./">pprof</a></h1>`, "<h1>" + title + "</h1>"},
	} {
		if !bytes.Contains(page, []byte(change.old)) {
			return nil, fmt.Errorf("pprof's page has no %s", change.old)
		}
		page = bytes.Replace(page, []byte(change.old), []byte(change.new), 1)
	}
	return page, nil
}

const pageStyle = ".header > * { display: none } .header > .title { display: block }"

// Serve serves pprof's web interface for p at addr, on the loopback interface
// alone, until ctx ends. It calls ready with the address of the page once it is
// there.
func Serve(ctx context.Context, addr string, p *Profile, ready func(url string)) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address %q: want HOST:PORT", addr)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("address %q: a profile is served on the loopback interface alone, such as localhost:0", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	defer l.Close()
	return present(p, func(args *driver.HTTPServerArgs) error {
		mux := http.NewServeMux()
		for path, handler := range args.Handlers {
			mux.Handle(path, handler)
		}
		server := &http.Server{Handler: local(mux), ReadHeaderTimeout: 10 * time.Second}
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		ready("http://" + l.Addr().String() + "/flamegraph")
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
}

// local refuses requests that a page from elsewhere has made a browser send under
// another name.
func local(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "not this host", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// present has pprof make its web interface of p, and serve handle it.
func present(p *Profile, serve func(*driver.HTTPServerArgs) error) error {
	u := &quietUI{}
	err := driver.PProf(&driver.Options{
		Flagset: flags{}, Fetch: fetched{p.Profile}, UI: u, HTTPServer: serve,
	})
	if err == nil {
		err = errors.Join(u.errs...)
	}
	return err
}

// flags is what pprof believes to be its command line.
type flags struct{}

func (flags) Bool(name string, def bool, _ string) *bool {
	v := def || name == "no_browser"
	return &v
}
func (flags) Int(_ string, def int, _ string) *int             { return &def }
func (flags) Float64(_ string, def float64, _ string) *float64 { return &def }
func (flags) String(name string, def string, _ string) *string {
	switch name {
	case "http":
		def = "localhost:0" // which makes pprof call HTTPServer; it listens nowhere itself
	case "tagroot":
		def = phase.LabelProcess + "," + phase.LabelPhase
	case "symbolize":
		def = "none"
	}
	return &def
}
func (flags) StringList(string, string, string) *[]*string { return &[]*string{} }
func (flags) ExtraUsage() string                           { return "" }
func (flags) AddExtraUsage(string)                         {}
func (flags) Parse(func()) []string                        { return []string{"profile"} }

// fetched gives pprof the profile that is there already.
type fetched struct{ p *pprof.Profile }

func (f fetched) Fetch(string, time.Duration, time.Duration) (*pprof.Profile, string, error) {
	return f.p.Copy(), "", nil // pprof changes what it gets
}

// quietUI keeps pprof's complaints, and asks nobody anything.
type quietUI struct{ errs []error }

func (*quietUI) ReadLine(string) (string, error) { return "", io.EOF }
func (*quietUI) Print(...any)                    {}
func (u *quietUI) PrintErr(args ...any) {
	u.errs = append(u.errs, errors.New(strings.TrimSpace(fmt.Sprint(args...))))
}
func (*quietUI) IsTerminal() bool                    { return false }
func (*quietUI) WantBrowser() bool                   { return false }
func (*quietUI) SetAutoComplete(func(string) string) {}
