"""People with the permissions of the shipped groups."""

from __future__ import annotations

from django.contrib.auth.models import Group, Permission, User

from jobs import permissions


def person(group: str | None = None, name: str = "", *, superuser: bool = False) -> User:
    """A member of staff: of a group, of none, or a superuser."""
    name = name or f"{(group or 'person').lower()}{User.objects.count()}"
    if superuser:
        return User.objects.create_superuser(name)
    user = User.objects.create_user(name, is_staff=True)
    if group:
        user.groups.add(shipped(group))
    return user


def shipped(name: str) -> Group:
    """The group; made as the migration makes it where a test has emptied the tables."""
    group, made = Group.objects.get_or_create(name=name)
    if made:
        codenames = [each.partition(".")[2] for each in permissions.GROUPS[name]]
        group.permissions.set(
            Permission.objects.filter(content_type__app_label="jobs", codename__in=codenames)
        )
    return group
