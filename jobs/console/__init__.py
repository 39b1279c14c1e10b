"""The operations console: the project's admin site, and what its pages share.

How it fits together: `ConsoleSite` (site.py) is an `AdminSite`. It renders every page, also Django's
own, inside one shell, `templates/admin/console/base.html`, through a template engine of its own
(engine.py), so that neither a theme nor the order of INSTALLED_APPS changes how it looks.

A page in ten lines, in the `admin.py` of any app:

    from jobs import permissions
    from jobs.console import navigation, pages

    @pages.add(navigation.Entry(label="Events", section=navigation.OPERATE, order=80, icon="events", key="e"))
    class Events(pages.Page):
        path, name = "events/", "events"          # reversed as admin:events
        title, template = "Events", "admin/jobs/events.html"
        needs = permissions.VIEW                  # 403 without; not in the navigation either

        def context(self) -> dict[str, Any]:
            return {"events": newest(self.request.GET)}

and its template, with the blocks of the stock admin (`content`, `object-tools`, `breadcrumbs`):

    {% extends "admin/console/base.html" %}{% load console %}
    {% block content %}
    <table class="grid"><thead><tr><th scope="col">Time</th></tr></thead>
    {% for event in events %}<tr><td>{% moment event.at %}</td></tr>{% endfor %}</table>
    {% endblock %}

A form posts to the same address: `def post(self, request)`, which asks `self.require(PERMISSION)`,
calls a lifecycle function inside `with self.told("paused"):` and ends with `return self.back()`.

A page of a model: a subclass of `admins.ConsoleAdmin`, registered with `@admin.register(Model)`;
`nav = navigation.Entry(...)` puts its list into the navigation. Lists that may be long are
subclasses of `lists.KeysetAdmin`: no COUNT, no OFFSET.

Other places to plug in:

- `@panels.add(...)`: a panel of the overview (panels.py).
- `@sample.part("runs")`: numbers read once a second by one process for all pages (sample.py), for
  badges (`Entry.badge`) and cards.
- `{% load console %}`: `state`, `icon`, `moment`, `duration`, `priority`, `count`, `short`, `json_tree`.
- `preferences.of(request)`: how the page looks to this person. Times that templates show and forms
  read are in their zone by themselves; `lists.size_of` says how many rows they want; `moments.pinned`
  makes an address with times in it mean the same to everybody. In scripts, `clock` (times.js).
- CSS: `static/jobs/console/console.css` names its parts in its first lines. A page's own style sheet
  or module goes into the blocks `pagestyle` and `pagescript`, with `{% csp_nonce_attr %}`. No style
  attribute, no inline script: the policy refuses both.
"""
