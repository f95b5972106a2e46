package doctest

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// elements and attributes occur in pages of package doc. Any others come from the text of a
// stranger.
const (
	elements = "html head meta title style body a header h1 h2 button nav ul li main noscript p section details summary div " +
		"figure figcaption dl dt dd pre table thead tbody tr th td i svg rect script"
	attributes = "lang charset http-equiv content name class href type id hidden aria-label aria-describedby aria-hidden tabindex " +
		"colspan width"
)

// actsInPage returns a part of an HTML page that could act, or "". Only scripts whose hash
// is in the page's policy are allowed.
func actsInPage(out string) string {
	root, err := html.Parse(strings.NewReader(out))
	if err != nil {
		return err.Error()
	}
	policy := ""
	for n := range root.Descendants() {
		if n.Type == html.CommentNode {
			return fmt.Sprintf("has the comment %q", n.Data)
		}
		if n.Type != html.ElementNode {
			continue
		}
		if !slices.Contains(strings.Fields(elements), n.Data) {
			return fmt.Sprintf("has the element %s", n.Data)
		}
		of := map[string]string{}
		for _, a := range n.Attr {
			of[a.Key] = a.Val
			if !slices.Contains(strings.Fields(attributes), a.Key) || a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
				return fmt.Sprintf("has the attribute %s=%q", a.Key, a.Val)
			}
		}
		switch {
		case of["http-equiv"] == "Content-Security-Policy":
			policy += of["content"]
		case n.Data == "style", n.Data == "script" && of["type"] != "application/json":
			sum := sha256.Sum256([]byte(n.FirstChild.Data))
			if hash := base64.StdEncoding.EncodeToString(sum[:]); !strings.Contains(policy, "'sha256-"+hash+"'") {
				return fmt.Sprintf("has the %s %.80q", n.Data, n.FirstChild.Data)
			}
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
		return fmt.Sprintf("has the policy %q", policy)
	}
	return ""
}
